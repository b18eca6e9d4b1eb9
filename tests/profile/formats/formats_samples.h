// A small file of every kind the importers read, for tests that run over all of
// them. Figures are made up.

#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "pipewright/profile/formats/importer.h"

namespace pipewright {

struct FormatSample {
  std::string from;
  SourceFile file;
  bool has_profile;
};

inline std::vector<FormatSample> format_samples() {
  return {
      {"pipedream",
       {"toy/graph.txt",
        "node3 -- Linear(in=8, out=4) -- forward_compute_time=2.000, "
        "backward_compute_time=4.000, activation_size=[16.0; 4.0], "
        "parameter_size=128.000 -- stage_id=1\n"
        "node1 -- Input0 -- forward_compute_time=9.000, "
        "backward_compute_time=0.000, activation_size=64.0, "
        "parameter_size=0.000 -- stage_id=0\n"
        "node2 -- ReLU(inplace) -- forward_compute_time=1.000, "
        "backward_compute_time=1.500, activation_size=64.000, "
        "parameter_size=0.000 -- stage_id=0\n"
        "node10 -- Add -- forward_compute_time=0.5, "
        "backward_compute_time=0.5, activation_size=32, parameter_size=0 -- "
        "stage_id=1\n"
        "\tnode1 -- node2\n\tnode2 -- node3\n \tnode3 -- node10\n"
        "  node2 -- node10 \n\n"},
       true},
      {"pipedream",
       {"hybrid_conf.json",
        "{\"module_to_stage_map\": [0, 1, 1],\n \"stage_to_rank_map\": {\"0\": "
        "[0, 1, 2], \"1\": [3]},\n \"stage_to_depth_map\": {\"0\": 1, \"1\": "
        "0}}\n"},
       false},
      {"dnn-partitioning",
       {"toy.json",
        "{\"maxSizePerFPGA\": 1000.0, \"maxFPGAs\": 2, \"maxCPUs\": 1,\n"
        "\"nodes\": [\n"
        "{\"id\": 7, \"name\": \"b\", \"supportedOnFpga\": true, "
        "\"cpuLatency\": 20, \"fpgaLatency\": 2.0, \"isBackwardNode\": false, "
        "\"colorClass\": 2, \"size\": 30},\n"
        "{\"id\": 1, \"name\": \"a\", \"supportedOnFpga\": 1, "
        "\"cpuLatency\": 10, \"fpgaLatency\": 1.0, \"isBackwardNode\": 0, "
        "\"colorClass\": 1, \"size\": 20},\n"
        "{\"id\": 9, \"supportedOnFpga\": 1, \"cpuLatency\": 40, "
        "\"fpgaLatency\": 4.0, \"isBackwardNode\": 1, \"colorClass\": 2, "
        "\"size\": 30}],\n"
        "\"edges\": [{\"sourceId\": 1, \"destId\": 7, \"cost\": 0.5, \"size\": "
        "64},\n{\"sourceId\": 7, \"destId\": 9, \"cost\": 0.25, \"size\": "
        "16}]}\n"},
       true},
      {"dnn-partitioning",
       {"toy_expert.json",
        "{\"cpus\": [{\"load\": 0.0, \"nodes\": []}], \"fpgas\": [{\"load\": "
        "-1, \"nodes\": [1]},\n{\"load\": -1, \"nodes\": [7, 9]}], "
        "\"maxLoad\": -1}"},
       false},
      {"piper",
       {"toy.json",
        "{\"maxDevices\": 4, \"maxMemoryPerDevice\": 1e9, \"bandwidth\": 1e9, "
        "\"mbsInBatch\": 8,\n\"nodes\": [{\"id\": 0, \"name\": \"embed\", "
        "\"TMPCs\": {\"1\": [\n{\"id\": \"vanilla\", \"timePerSample\": 0.3, "
        "\"parameterSize\": 100, \"memoryUsageA\": 10, \"memoryUsageB\": 200, "
        "\"syncTimeFw\": {}, \"syncTimeBw\": {\"1\": 0.0}},\n{\"id\": "
        "\"activation recomp\", \"timePerSample\": 0.4, \"parameterSize\": "
        "100, "
        "\"memoryUsageA\": 5, \"memoryUsageB\": 210, \"syncTimeFw\": {}, "
        "\"syncTimeBw\": {\"1\": 0.0}}]}},\n{\"id\": 1, \"name\": \"head\", "
        "\"TMPCs\": {\"1\": [{\"id\": \"vanilla\", \"timePerSample\": 0.6, "
        "\"parameterSize\": 0, \"memoryUsageA\": 8, \"memoryUsageB\": 0, "
        "\"syncTimeFw\": {\"0\": 0.0}, \"syncTimeBw\": {}},\n{\"id\": "
        "\"activation recomp\", \"timePerSample\": 0.8, \"parameterSize\": 0, "
        "\"memoryUsageA\": 4, \"memoryUsageB\": 4, \"syncTimeFw\": {\"0\": "
        "0.0}, \"syncTimeBw\": {}}]}}],\n\"edges\": [{\"sourceId\": 0, "
        "\"destId\": 1, \"communicationCost\": 32.0}]}"},
       true},
      {"sailor",
       {"OPT/V100-16/profile.json",
        "{\"4\": {\"1\": {\"1\": [0.2, 0.4, 0.01], \"0\": [0.1, 0.2, 0.0]},\n"
        " \"2\": {\"0\": [0.1, 0.1, 0.0], \"1\": [0.1, 0.2, 0.01]}},\n"
        "\"1\": {\"1\": {\"0\": [0.03, 0.06, 0.0], \"1\": [0.06, 0.12, "
        "0.01]}}}"},
       true},
      {"sailor",
       {"llm_info.json",
        "{\"OPT\": {\"1\": {\"0\": {\"params_floats\": 25, "
        "\"act_output_floats\": 2, \"act_input_floats\": 1, "
        "\"act_mem_floats\": "
        "4, \"params_bytes\": 100, \"act_output_bytes\": 8, "
        "\"act_input_bytes\": 4, \"act_mem_bytes\": 16},\n\"1\": "
        "{\"params_floats\": 50, \"act_output_floats\": 2, "
        "\"act_input_floats\": 2, \"act_mem_floats\": 8, \"params_bytes\": "
        "200, "
        "\"act_output_bytes\": 8, \"act_input_bytes\": 8, \"act_mem_bytes\": "
        "32}}}}"},
       false},
      {"sailor",
       {"network.json",
        "{\"inter\": {\"V100-16\": {\"1\": [[-0.01, 0.5, 2.0], 4e9]}},\n"
        "\"intra\": {\"V100-16\": {\"2\": [[0.8, 16.5, 33.0], 2.4e11]}}}"},
       false},
      {"sailor",
       {"plan_config.json",
        "{\"zone\": \"z\", \"pipeline_list\": [{\"num_stages\": 2, "
        "\"layers_per_stage\": [[0], [1]],\n\"tmp_per_stage\": "
        "[[[[[\"V100-16\", "
        "1, \"z\"]], 1]], [[[[\"V100-16\", 1, \"z\"]], 1]]], \"dp\": [1, "
        "1]}],\n"
        "\"mbs\": 4, \"gbs\": 32, \"real\": 1.5, \"red_grads\": 0.1, "
        "\"max_mem\": 1000000, \"N\": 2}"},
       false},
      {"sailor",
       {"cluster.json",
        "{\"V100-16\": {\"gpus_per_node\": 4, \"mem_per_gpu\": 17179869184}, "
        "\"zone\": \"z\"}"},
       false},
      {"aceso",
       {"gpt_1B_mbs2_tp1_algo0.csv",
        "op_name,forward-compute,backward-compute,input_size,output_size,"
        "weights,activations,fwd_reserved,bwd_reserved\n"
        "embedding,100.0,200.0,0.5,4.0,16.0,8.0,1.0,2.0\n"
        "enc-qkv,50.0,120.5,4.0,8.0,6.0,4.0,0.0,0.5\n"
        "enc-out,25.0,60.0,8.0,4.0,2.0,4.0,0.0,0.0\n"
        "head,10.0,20.0,4.0,0.0,0.0,1.0,0.0,0.0\n"},
       true},
      {"aceso",
       {"prim_gpt_1B_all_gather_4gpus.csv",
        "data_size(MB),time(ms)\n8,0.5\n2,0.25\n4,0.375\n"},
       false},
      {"aceso", {"p2p_inter_node.csv", "1,2,4\n3.5, 4.5, 5.0\n"}, false},
      {"galvatron",
       {"computation_profiling.json",
        "{\"layernum[2]_bsz4\": 40.0, \"layernum[4]_bsz4\": 56.0,\n"
        "\"layertype_0\": 2.0}"},
       true},
      {"galvatron",
       {"computation_profiling_sizes.json",
        "{\"layertype_0_bsz1\": 3.0, \"layertype_0_bsz2\": 2.5,\n"
        "\"layertype_0_bsz3\": -1.0, \"layertype_other_0_bsz1\": 6.0, "
        "\"layertype_other_0_bsz2\": 5.0}"},
       true},
      {"galvatron",
       {"memory_profiling.json",
        "{\"1_1_8\": {\"layernum[1]_bsz8_rank0_ms\": 3.5, "
        "\"layernum[1]_bsz8_rank0_act\": 1.5, "
        "\"layernum[1]_bsz8_rank0_act_peak\": 2.5},\n\"layertype_0\": "
        "{\"parameter_size\": 12.0, \"tp_activation_per_bsz_dict\": {\"1\": "
        "8.0, \"2\": 4.5, \"checkpoint\": 2.0}},\n"
        "\"other_memory_pp_off\": {\"model_states\": 96.0, \"activation\": "
        "4.0},\n\"other_memory_pp_on_first\": {\"model_states\": 40.0, "
        "\"activation\": 1.0},\n\"other_memory_pp_on_last\": "
        "{\"model_states\": "
        "48.0, \"activation\": 3.0}}"},
       false},
      {"galvatron",
       {"galvatron_config.json",
        "{\"pp_deg\": 2, \"tp_sizes_enc\": \"1,2,2\", "
        "\"tp_consecutive_flags\": \"1,1,1\",\n\"dp_types_enc\": \"0,1,1\", "
        "\"global_bsz\": 16, \"chunks\": 4, \"pp_division\": \"1,2\",\n"
        "\"checkpoint\": \"0,0,1\", \"pipeline_type\": \"pipedream_flush\", "
        "\"default_dp_type\": \"zero2\"}"},
       false},
      {"galvatron",
       {"sp_time_1nodes_8gpus_per_node.json",
        "{\"allreduce_size_8_2MB_time\": 0.2, \"allreduce_size_8_1MB_time\": "
        "0.1,\n\"all2all_size_4_1MB_time\": 0.05}"},
       false},
      {"galvatron",
       {"gpt.json",
        "{\"n_layer\": 6, \"n_embd\": 64, \"n_head\": 4, \"head_dim\": 16, "
        "\"vocab_size\": 100, \"n_positions\": 32}"},
       false},
  };
}

// The sample whose file has this name.
inline SourceFile sample_named(const std::string& name) {
  for (const FormatSample& sample : format_samples())
    if (sample.file.name == name) return sample.file;
  return {name, ""};
}

// What they are read as.
inline Imported imported_from(const std::vector<SourceFile>& files,
                              const ImportOptions& options = {}) {
  auto imported = import_files(files, "", options);
  if (!imported) FAIL(imported.error().to_text());
  return *imported;
}

}  // namespace pipewright
