// A set of values that is filled first and asked then: a stage of a deep model
// has hundreds, of which planners make a new set for every plan they try.

#pragma once

#include <algorithm>
#include <vector>

#include "pipewright/plan/program/program.h"

namespace pipewright {

class ValueSet {
 public:
  void insert(const Value& value) {
    if (!values_.empty() && values_.back() == value) return;
    is_sorted_ = is_sorted_ && (values_.empty() || values_.back() < value);
    values_.push_back(value);
  }
  void insert(const ValueSet& others) {
    values_.insert(values_.end(), others.values_.begin(), others.values_.end());
    is_sorted_ = false;
  }
  template <typename Condition>
  void erase_if(Condition condition) {
    std::erase_if(values_, condition);
  }
  bool contains(const Value& value) const {
    sort();
    return std::binary_search(values_.begin(), values_.end(), value);
  }
  auto begin() const {
    sort();
    return values_.begin();
  }
  auto end() const {
    sort();
    return values_.end();
  }

 private:
  void sort() const {
    if (is_sorted_) return;
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    is_sorted_ = true;
  }
  mutable std::vector<Value> values_;
  mutable bool is_sorted_ = true;
};

}  // namespace pipewright
