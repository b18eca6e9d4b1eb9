// The comparison before the first step; see agreement.h.

#include "pipewright/runtime/ranks/agreement.h"

#include <unistd.h>

#include <map>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

// FNV-1a: finds mistakes; it does not protect against an attacker.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

std::string rank_text(std::size_t rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " on " + host;
}

// What one rank reports.
struct Statement {
  std::string host;
  std::optional<Error> failure;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  std::map<std::string, std::string> short_texts;
};

std::string packed(const Result<Intentions>& mine) {
  Packer packer;
  packer.text(host_name());
  packer.number(mine.ok());
  if (!mine) {
    packer.number(mine.error().code);
    packer.text(mine.error().to_text());
    return packer.take();
  }
  packer.number(mine->size());
  for (const auto& [name, text] : *mine) {
    packer.text(name);
    packer.number(hash_of(text));
    packer.text(text.size() <= 60 ? text : "");
  }
  return packer.take();
}

Statement unpacked(const std::string& bytes) {
  Unpacker unpacker(bytes);
  Statement statement;
  statement.host = unpacker.text();
  if (!unpacker.number<bool>()) {
    const auto code = unpacker.number<ErrorCode>();
    statement.failure = Error{code, unpacker.text(), "", "", {}};
    return statement;
  }
  for (auto n = unpacker.number<std::size_t>(); n > 0; --n) {
    const std::string name = unpacker.text();
    statement.hashes.emplace_back(name, unpacker.number<std::uint64_t>());
    statement.short_texts[name] = unpacker.text();
  }
  return statement;
}

std::optional<Error> difference(const std::vector<Statement>& all) {
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].failure) {
      Error error = *all[r].failure;
      if (all.size() > 1) error.where = rank_text(r, all[r].host);
      return error;
    }
  for (std::size_t i = 0; i < all[0].hashes.size(); ++i) {
    const std::string& name = all[0].hashes[i].first;
    std::string others;
    int num_others = 0;
    for (std::size_t r = 1; r < all.size(); ++r) {
      if (all[r].hashes == all[0].hashes || all[r].hashes.size() <= i ||
          all[r].hashes[i] == all[0].hashes[i])
        continue;
      ++num_others;
      others += (others.empty() ? "" : ", ") + rank_text(r, all[r].host);
      const std::string& text = all[r].short_texts.at(name);
      if (!text.empty()) others += " (" + text + ")";
    }
    if (others.empty()) continue;
    const std::string& own = all[0].short_texts.at(name);
    return Error{ErrorCode::WorkersDisagree,
                 others + (num_others == 1 ? " has" : " have") +
                     " a different " + name + " than " +
                     rank_text(0, all[0].host) +
                     (own.empty() ? "" : " (" + own + ")"),
                 "",
                 "start all ranks with the same binary, files and options",
                 {}};
  }
  return std::nullopt;
}

}  // namespace

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

Result<void> agree(Transport& transport, const Result<Intentions>& mine) {
  std::vector<Statement> all;
  for (const std::string& bytes : transport.gather(packed(mine)))
    all.push_back(unpacked(bytes));
  Packer verdict;
  const auto found = all.empty() ? std::nullopt : difference(all);
  verdict.number(found.has_value());
  if (found) {
    verdict.number(found->code);
    for (const auto* text : {&found->message, &found->where, &found->hint})
      verdict.text(*text);
  }
  const std::string answer = transport.broadcast(verdict.take());
  Unpacker unpacker(answer);
  if (!unpacker.number<bool>()) return {};
  Error error;
  error.code = unpacker.number<ErrorCode>();
  error.message = unpacker.text();
  error.where = unpacker.text();
  error.hint = unpacker.text();
  return error;
}

std::vector<std::string> texts_of_ranks(Transport& transport,
                                        std::string mine) {
  Packer packer;
  for (const std::string& text : transport.gather(std::move(mine)))
    packer.text(text);
  const std::string answer = transport.broadcast(packer.take());
  std::vector<std::string> texts;
  for (Unpacker unpacker(answer); !unpacker.is_done();)
    texts.push_back(unpacker.text());
  return texts;
}

}  // namespace pipewright
