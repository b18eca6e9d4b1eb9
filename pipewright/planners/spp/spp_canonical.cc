#include "pipewright/planners/spp/spp_canonical.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

constexpr double kMaxWork = 2e8;  // tried orders times n^3: about a second

using Colours = std::vector<int>;  // by vertex; 0 is the first colour

// The position of each value among the distinct ones, smallest first.
template <typename Value>
std::vector<int> ranks(const std::vector<Value>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
    return values[i] < values[j];
  });
  std::vector<int> ranks(values.size(), 0);
  for (std::size_t i = 1; i < order.size(); ++i)
    ranks[order[i]] =
        ranks[order[i - 1]] + (values[order[i - 1]] < values[order[i]] ? 1 : 0);
  return ranks;
}

// Vertices that are taken as one: all have the same bandwidths to every vertex
// outside. Two with the same look are equal inside, too.
struct Module {
  std::vector<int> vertices;  // in their canonical order
  int look = 0;
  int first_name = 0;
};

// Whether u and v have the same bandwidths to all others.
bool are_twins(const Bandwidths& b, std::size_t u, std::size_t v) {
  for (std::size_t w = 0; w < b.size(); ++w)
    if (b[u][w] != b[v][w] && w != u && w != v) return false;
  return true;
}

// Being twins is an equivalence, and all pairs of one class have the same
// bandwidth.
std::vector<std::vector<std::size_t>> twin_classes(const Bandwidths& b) {
  std::vector<std::vector<std::size_t>> classes;
  for (std::size_t v = 0; v < b.size(); ++v) {
    const auto same =
        std::find_if(classes.begin(), classes.end(),
                     [&](const auto& c) { return are_twins(b, c[0], v); });
    if (same == classes.end())
      classes.push_back({v});
    else
      same->push_back(v);
  }
  return classes;
}

// The modules of one class become one. `look` tells all that is inside.
Module merged(std::vector<Module> twins) {
  std::sort(twins.begin(), twins.end(), [](const Module& a, const Module& b) {
    return std::pair(a.look, a.first_name) < std::pair(b.look, b.first_name);
  });
  Module all = std::move(twins[0]);
  for (std::size_t i = 1; i < twins.size(); ++i) {
    const Module& twin = twins[i];
    all.vertices.insert(all.vertices.end(), twin.vertices.begin(),
                        twin.vertices.end());
    all.first_name = std::min(all.first_name, twin.first_name);
  }
  return all;
}

// What isomorphic modules have in common, faster ones first.
std::vector<double> signature(const std::vector<Module>& twins, double inside) {
  std::vector<double> looks;
  for (const Module& twin : twins) looks.push_back(twin.look);
  std::sort(looks.begin(), looks.end());
  looks.insert(looks.begin() + 1, twins.size() == 1
                                      ? std::numeric_limits<double>::infinity()
                                      : -inside);
  return looks;
}

// Merges twins, then the twins among those, until there are none. `b` becomes
// the graph of the modules.
std::vector<Module> merged_modules(Bandwidths& b,
                                   const std::vector<int>& kinds) {
  std::vector<Module> modules;
  for (std::size_t v = 0; v < b.size(); ++v) {
    const int name = static_cast<int>(v);
    modules.push_back({{name}, kinds[v], name});
  }
  while (true) {
    const auto classes = twin_classes(b);
    if (classes.size() == modules.size()) return modules;
    std::vector<Module> next;
    std::vector<std::vector<double>> signatures;
    std::vector<int> kept;
    for (const auto& same : classes) {
      std::vector<Module> twins;
      for (std::size_t v : same) twins.push_back(std::move(modules[v]));
      signatures.push_back(signature(twins, b[same[0]][same.back()]));
      next.push_back(merged(std::move(twins)));
      kept.push_back(static_cast<int>(same[0]));
    }
    const std::vector<int> looks = ranks(signatures);
    for (std::size_t m = 0; m < next.size(); ++m) next[m].look = looks[m];
    modules = std::move(next);
    b = among(b, kept);
  }
}

// The canonical order of a graph without twins.
class CanonicalSearch {
 public:
  explicit CanonicalSearch(const Bandwidths& bandwidths)
      : b_(bandwidths), n_(bandwidths.size()) {
    const auto n = static_cast<double>(n_);
    orders_left_ =
        static_cast<int>(std::clamp(kMaxWork / (n * n * n + 1), 1.0, 5000.0));
  }

  std::vector<int> search(const Colours& kinds) {
    visit(refined(kinds));
    return best_.order;
  }

 private:
  struct Leaf {
    std::vector<int> order;
    std::vector<int> path;  // the vertices that were put first
  };

  // Splits colours by the bandwidths to vertices of each colour, until that
  // splits no more. A colour keeps its place among the others; inside it, the
  // largest bandwidths to the first colours come first.
  Colours refined(Colours colours) const {
    using Seen = std::vector<std::pair<int, double>>;
    for (int count = 0;;) {
      std::vector<std::pair<int, Seen>> looks(n_);
      for (std::size_t v = 0; v < n_; ++v) {
        Seen& seen = looks[v].second;
        seen.reserve(n_);
        for (std::size_t w = 0; w < n_; ++w)
          if (w != v) seen.emplace_back(colours[w], -b_[v][w]);
        std::sort(seen.begin(), seen.end());
        looks[v].first = colours[v];
      }
      colours = ranks(looks);
      const int now = 1 + *std::max_element(colours.begin(), colours.end());
      if (now == count || now == static_cast<int>(n_)) return colours;
      count = now;
    }
  }

  // The vertices of the first colour that several have.
  std::vector<int> first_tied(const Colours& colours) const {
    std::vector<std::vector<int>> same(n_);
    for (std::size_t v = 0; v < n_; ++v)
      same[at(colours[v])].push_back(static_cast<int>(v));
    for (auto& vertices : same)
      if (vertices.size() > 1) return std::move(vertices);
    return {};
  }

  void visit(const Colours& colours) {
    const std::vector<int> tied = first_tied(colours);
    if (tied.empty()) return keep(colours);
    std::vector<int> tried;
    for (int v : tied) {
      if (orders_left_ <= 0) return;
      if (is_symmetric_to(tried, v)) continue;
      tried.push_back(v);
      Colours first = colours;
      for (int& colour : first) colour = 2 * colour + 1;
      first[at(v)] -= 1;
      path_.push_back(v);
      visit(refined(std::move(first)));
      path_.pop_back();
      if (path_.size() > go_on_at_) return;
    }
  }

  // Whether known symmetries that keep the path map one of `tried` to v. What
  // follows v is then what follows that one, under other names.
  bool is_symmetric_to(std::vector<int> tried, int v) const {
    std::vector<const std::vector<int>*> keeping;
    for (const std::vector<int>& image : symmetries_)
      if (std::all_of(path_.begin(), path_.end(),
                      [&](int w) { return image[at(w)] == w; }))
        keeping.push_back(&image);
    std::vector<bool> reached(n_, false);
    for (int u : tried) reached[at(u)] = true;
    while (!tried.empty() && !reached[at(v)]) {
      const int u = tried.back();
      tried.pop_back();
      for (const std::vector<int>* image : keeping) {
        const int w = (*image)[at(u)];
        if (!reached[at(w)]) tried.push_back(w);
        reached[at(w)] = true;
      }
    }
    return reached[at(v)];
  }

  void keep(const Colours& colours) {
    --orders_left_;
    go_on_at_ = path_.size();
    Leaf leaf{std::vector<int>(n_), path_};
    for (std::size_t v = 0; v < n_; ++v)
      leaf.order[at(colours[v])] = static_cast<int>(v);
    if (best_.order.empty()) {
      first_ = best_ = std::move(leaf);
      return;
    }
    const int larger = compared(leaf.order, best_.order);
    if (larger == 0) return add_symmetry(best_, leaf);
    if (compared(leaf.order, first_.order) == 0) add_symmetry(first_, leaf);
    if (larger > 0) best_ = std::move(leaf);
  }

  // Both orders give the same graph. So all that follows the vertex in which
  // their paths part follows it in both, and need not be tried again.
  void add_symmetry(const Leaf& known, const Leaf& leaf) {
    auto& image = symmetries_.emplace_back(n_);
    for (std::size_t i = 0; i < n_; ++i)
      image[at(known.order[i])] = leaf.order[i];
    const auto parting = std::mismatch(leaf.path.begin(), leaf.path.end(),
                                       known.path.begin(), known.path.end())
                             .first;
    go_on_at_ = static_cast<std::size_t>(parting - leaf.path.begin());
  }

  // Above 0 if the bandwidths along `a` are larger.
  int compared(const std::vector<int>& a, const std::vector<int>& c) const {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double here = b_[at(a[i])][at(a[j])];
        const double there = b_[at(c[i])][at(c[j])];
        if (here != there) return here > there ? 1 : -1;
      }
    return 0;
  }

  const Bandwidths& b_;
  const std::size_t n_;
  int orders_left_ = 0;
  Leaf first_, best_;
  std::vector<std::vector<int>> symmetries_;  // the image of each vertex
  std::vector<int> path_;
  std::size_t go_on_at_ = 0;  // the length of the path at which to go on
};

}  // namespace

Bandwidths among(const Bandwidths& all, const std::vector<int>& vertices) {
  const std::size_t n = vertices.size();
  Bandwidths part(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double* from = all[at(vertices[i])].data();
    for (std::size_t j = 0; j < n; ++j) part[i][j] = from[vertices[j]];
  }
  return part;
}

std::vector<int> canonical_order(const Bandwidths& bandwidths,
                                 const std::vector<int>& kinds) {
  if (kinds.empty()) return {};
  Bandwidths b = bandwidths;
  const std::vector<Module> modules = merged_modules(b, kinds);
  Colours looks;
  for (const Module& module : modules) looks.push_back(module.look);
  std::vector<int> order;
  for (int m : CanonicalSearch(b).search(looks)) {
    const std::vector<int>& vertices = modules[at(m)].vertices;
    order.insert(order.end(), vertices.begin(), vertices.end());
  }
  return order;
}

}  // namespace pipewright
