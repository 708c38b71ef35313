#include "training/agreement.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/ranges.h>

#include "training/outcome.hpp"

namespace tutti::training {
namespace {

/// A line for each parameter.
std::string lines_of(const ParameterTable& table) {
  std::string lines;
  for (const Parameter& parameter : table.all())
    lines += fmt::format("'{}' of [{}]{}\n", parameter.name, fmt::join(parameter.shape, ", "),
                         parameter.decays ? "" : " without weight decay");
  return lines;
}

/// Where the lines of two ranks differ first.
std::string difference_of(std::string_view first, std::string_view other, std::size_t rank) {
  for (std::size_t number = 0; first != other; ++number) {
    const auto take = [](std::string_view& lines) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(std::min(lines.size(), line.size() + 1));
      return line.empty() ? std::string_view("missing") : line;
    };
    const std::string_view here = take(first), there = take(other);
    if (here != there)
      return fmt::format("parameter {} is {} on rank 0, and {} on rank {}", number, here, there,
                         rank);
  }
  return "a parameter";
}

}  // namespace

Error peer_failure(std::size_t rank, std::string what) {
  Error error{Code::kPeerFailed, std::move(what)};
  error.peer = static_cast<Rank>(rank);
  return error;
}

Status agree_on_number(Comm& comm, std::uint64_t number, std::string_view what) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
  TRAINING_TRY(comm.all_gather<std::uint64_t>(std::span(&number, 1), all));
  const auto other = std::ranges::find_if(all, [&](std::uint64_t its) { return its != all[0]; });
  if (other == all.end()) return ok_status();
  const auto rank = static_cast<std::size_t>(other - all.begin());
  return peer_failure(rank, fmt::format("rank {} {} than rank 0", rank, what));
}

Result<std::vector<std::string>> gather_texts(Comm& comm, std::string_view mine) {
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(comm.size()));
  const std::uint64_t length = mine.size();
  TRAINING_TRY(comm.all_gather<std::uint64_t>(std::span(&length, 1), lengths));
  std::size_t sum = 0;
  std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  for (const std::size_t count : counts) sum += count;
  std::vector<std::uint8_t> all(sum);
  const auto* const own = reinterpret_cast<const std::uint8_t*>(mine.data());
  TRAINING_TRY(comm.all_gather_v<std::uint8_t>(std::span(own, mine.size()), all, counts));
  std::vector<std::string> texts;
  auto begin = all.begin();
  for (const std::size_t count : counts) {
    texts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    begin += static_cast<std::ptrdiff_t>(count);
  }
  return texts;
}

Status agree(Comm& comm, const Status& mine) {
  std::vector<std::uint8_t> all(static_cast<std::size_t>(comm.size()));
  const std::uint8_t failed = mine ? 0 : 1;
  TRAINING_TRY(comm.all_gather<std::uint8_t>(std::span(&failed, 1), all));
  if (std::ranges::find(all, std::uint8_t{1}) == all.end()) return ok_status();
  TRAINING_ASSIGN(const auto texts, gather_texts(comm, mine ? "" : mine.error().what));
  if (!mine) return mine;
  const auto first = std::ranges::find(all, std::uint8_t{1}) - all.begin();
  const auto rank = static_cast<std::size_t>(first);
  return peer_failure(rank, fmt::format("rank {}: {}", rank, texts[rank]));
}

Status agree_on_model(Comm& comm, const ParameterTable& table, std::uint64_t options) {
  const std::array<std::uint64_t, 2> mine = {table.hash(), options};
  std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(comm.size()));
  TRAINING_TRY(comm.all_gather<std::uint64_t>(mine, all));
  std::size_t model = 0, option = 0;  // the first ranks that differ from rank 0
  for (std::size_t rank = all.size() / 2 - 1; rank > 0; --rank) {
    if (all[2 * rank] != all[0]) model = rank;
    if (all[2 * rank + 1] != all[1]) option = rank;
  }
  if (model != 0) {
    TRAINING_ASSIGN(const auto texts, gather_texts(comm, lines_of(table)));
    return peer_failure(model, fmt::format("rank {} trains another model than rank 0: {}", model,
                                           difference_of(texts[0], texts[model], model)));
  }
  if (option != 0)
    return peer_failure(option,
                        fmt::format("rank {} trains with other options than rank 0: start all "
                                    "ranks with the same program and the same options",
                                    option));
  return ok_status();
}

}  // namespace tutti::training
