#include "pipewright/planners/spp/spp_canonical.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

constexpr double kMaxWork = 2e8;  // tried orders times n^3: about a second

using Colours = std::vector<int>;  // by vertex; 0 is the first colour

class CanonicalSearch {
 public:
  CanonicalSearch(const Bandwidths& bandwidths, const std::vector<int>& kinds)
      : b_(bandwidths), n_(bandwidths.size()), kinds_(kinds) {
    const auto n = static_cast<double>(n_);
    orders_left_ =
        static_cast<int>(std::clamp(kMaxWork / (n * n * n + 1), 1.0, 5000.0));
  }

  std::vector<int> search() {
    Colours colours = kinds_;
    visit(refined(std::move(colours)));
    return best_;
  }

 private:
  // Splits colours by the bandwidths to vertices of each colour, until that
  // splits no more. A colour keeps its place among the others; inside it, the
  // largest bandwidths to the first colours come first.
  Colours refined(Colours colours) const {
    for (std::size_t count = 0;;) {
      std::map<std::pair<int, std::vector<std::pair<int, double>>>,
               std::vector<std::size_t>>
          classes;
      for (std::size_t v = 0; v < n_; ++v) {
        std::vector<std::pair<int, double>> seen;
        for (std::size_t w = 0; w < n_; ++w)
          if (w != v) seen.emplace_back(colours[w], -b_[v][w]);
        std::sort(seen.begin(), seen.end());
        classes[{colours[v], std::move(seen)}].push_back(v);
      }
      int colour = 0;
      for (const auto& [signature, vertices] : classes) {
        for (std::size_t v : vertices) colours[v] = colour;
        ++colour;
      }
      if (classes.size() == count) return colours;
      count = classes.size();
    }
  }

  // The first colour that several vertices have which are not all alike.
  std::vector<std::size_t> first_tied(const Colours& colours) const {
    for (int colour = 0; colour < static_cast<int>(n_); ++colour) {
      std::vector<std::size_t> same;
      for (std::size_t v = 0; v < n_; ++v)
        if (colours[v] == colour) same.push_back(v);
      const bool alike =
          std::all_of(same.begin(), same.end(),
                      [&](std::size_t v) { return are_twins(same[0], v); });
      if (!alike) return same;
    }
    return {};
  }

  // Whether exchanging the two changes nothing.
  bool are_twins(std::size_t u, std::size_t v) const {
    for (std::size_t w = 0; w < n_; ++w)
      if (w != u && w != v && b_[u][w] != b_[v][w]) return false;
    return true;
  }

  void visit(const Colours& colours) {
    const std::vector<std::size_t> tied = first_tied(colours);
    if (tied.empty()) return keep(colours);
    std::vector<std::size_t> tried;
    for (std::size_t v : tied) {
      if (orders_left_ <= 0) return;
      const bool known =
          std::any_of(tried.begin(), tried.end(),
                      [&](std::size_t u) { return are_twins(u, v); });
      if (known) continue;
      tried.push_back(v);
      Colours first = colours;
      for (int& colour : first) colour *= 2;
      first[v] -= 1;
      visit(refined(std::move(first)));
    }
  }

  void keep(const Colours& colours) {
    --orders_left_;
    std::vector<int> order(n_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int u, int v) {
      return colours[at(u)] < colours[at(v)];
    });
    if (best_.empty() || is_larger(order, best_)) best_ = std::move(order);
  }

  bool is_larger(const std::vector<int>& a, const std::vector<int>& c) const {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double here = b_[at(a[i])][at(a[j])];
        const double there = b_[at(c[i])][at(c[j])];
        if (here != there) return here > there;
      }
    return false;
  }

  const Bandwidths& b_;
  const std::size_t n_;
  const std::vector<int>& kinds_;
  int orders_left_ = 0;
  std::vector<int> best_;
};

}  // namespace

std::vector<int> canonical_order(const Bandwidths& bandwidths,
                                 const std::vector<int>& kinds) {
  return CanonicalSearch(bandwidths, kinds).search();
}

}  // namespace pipewright
