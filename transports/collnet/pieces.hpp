// Memory in pieces that follow each other in an operation of a tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace tutti::collnet {

/// The memory of positions `begin()` to `end()`. Value; the memory is another's.
template <class Byte>
class Pieces {
 public:
  Pieces(std::span<const std::span<Byte>> pieces, std::size_t begin)
      : pieces_(pieces.begin(), pieces.end()) {
    for (const auto& piece : pieces_) {
      begins_.push_back(begin);
      begin += piece.size();
    }
    end_ = begin;
  }

  [[nodiscard]] std::size_t begin() const { return begins_.empty() ? end_ : begins_.front(); }
  [[nodiscard]] std::size_t end() const { return end_; }

  /// Calls visit(memory, position) for what there is of positions `from` to `to`, in order.
  template <class Visit>
  void visit(std::size_t from, std::size_t to, const Visit& visit) const {
    from = std::max(from, begin());
    to = std::min(to, end_);
    if (from >= to) return;
    auto i = static_cast<std::size_t>(std::ranges::upper_bound(begins_, from) - begins_.begin());
    for (--i; from < to; ++i) {
      const std::size_t skipped = from - begins_[i];
      const auto memory =
          pieces_[i].subspan(skipped, std::min(pieces_[i].size() - skipped, to - from));
      if (!memory.empty()) visit(memory, from);
      from += memory.size();
    }
  }

 private:
  std::vector<std::span<Byte>> pieces_;
  std::vector<std::size_t> begins_;
  std::size_t end_ = 0;
};

}  // namespace tutti::collnet
