#include "transports/verbs/puts.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "transports/verbs/control_message.hpp"

namespace tutti::verbs {
namespace {

Error bad_key(const char* what, std::uint64_t value) {
  return make_error(Code::kPeerFailed, "its key of a target has {} {}", what, value);
}

}  // namespace

Blob encode(const TargetKey& key) {
  Blob blob;
  ByteWriter out(blob);
  out.put(key.number)
      .put(static_cast<std::uint8_t>(key.keys.size()))
      .put(key.fragment)
      .put(key.address)
      .put(key.bytes);
  for (const std::uint32_t one : key.keys) out.put(one);
  return blob;
}

Result<TargetKey> decode_target_key(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  TargetKey key;
  key.number = in.get<std::uint16_t>();
  const auto count = in.get<std::uint8_t>();
  key.fragment = in.get<std::uint32_t>();
  key.address = in.get<std::uint64_t>();
  key.bytes = in.get<std::uint64_t>();
  if (key.number >= kMostTargets) return bad_key("a number of", key.number);
  if (count == 0 || count > kMostRails) return bad_key("rails:", count);
  if (!std::has_single_bit(key.fragment) || key.fragment < kLeastFragment ||
      key.fragment > kMostFragment)
    return bad_key("fragments of bytes:", key.fragment);
  if (key.bytes == 0 || key.address + key.bytes < key.address)
    return bad_key("bytes at its address:", key.bytes);
  for (unsigned i = 0; i < count; ++i) key.keys.push_back(in.get<std::uint32_t>());
  if (!in.complete()) return bad_key("a length of", bytes.size());
  return key;
}

// --- the side that receives ---

std::optional<std::uint16_t> PutTargets::add(std::span<std::byte> memory,
                                             std::shared_ptr<const RegisteredPiece> piece,
                                             std::uint32_t fragment) {
  auto free = std::ranges::find(targets_, State::kFree, &Target::state);
  if (free == targets_.end()) {
    if (targets_.size() == kMostTargets) return std::nullopt;
    free = targets_.insert(targets_.end(), Target{});
  }
  *free = {.state = State::kOpen,
           .piece = std::move(piece),
           .fragments = (memory.size() + fragment - 1) / fragment};
  return static_cast<std::uint16_t>(free - targets_.begin());
}

Result<std::optional<PutTargets::Landed>> PutTargets::land(std::uint16_t number,
                                                           std::size_t device) {
  if (number >= targets_.size() || targets_[number].state == State::kFree ||
      targets_[number].state == State::kLanded)
    return make_error(Code::kPeerFailed, "it wrote to a target {} that it was not shown", number);
  Target& target = targets_[number];
  target.devices |= 1U << device;
  if (target.state == State::kGivenUp || --target.fragments > 0) return std::optional<Landed>();
  Landed landed{std::move(target.piece), target.devices};
  target = {.state = State::kLanded};
  return std::optional(std::move(landed));
}

// --- the side that sends ---

PutWorks::Work* PutWorks::ungiven() const {
  const auto found = std::ranges::find_if(
      works_, [](const auto& work) { return work->given < work->data.size(); });
  return found == works_.end() ? nullptr : found->get();
}

PutWorks::Fragment PutWorks::next() {
  if (!again_.empty()) {
    Fragment fragment = std::move(again_.front());
    again_.pop_front();
    return fragment;
  }
  const auto found = std::ranges::find_if(
      works_, [](const auto& work) { return work->given < work->data.size(); });
  Work& work = **found;
  Fragment fragment{.work = *found,
                    .offset = work.given,
                    .bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
                        work.target.fragment, work.data.size() - work.given))};
  work.given += fragment.bytes;
  ++work.under_way;
  return fragment;
}

void PutWorks::try_again(Fragment fragment) {
  if (fragment.work) again_.push_back(std::move(fragment));
}

void* PutWorks::land(const Fragment& fragment) {
  if (!fragment.work) return nullptr;
  Work& work = *fragment.work;
  if (--work.under_way > 0 || work.given < work.data.size()) return nullptr;
  void* const owner = work.owner;
  std::erase(works_, fragment.work);
  return owner;
}

template <class Matches>
void PutWorks::forget_if(const Matches& matches) {
  std::erase_if(again_, [&](const Fragment& fragment) { return matches(*fragment.work); });
  std::erase_if(works_, [&](const auto& work) { return matches(*work); });
}

void PutWorks::forget(const void* owner) {
  forget_if([&](const Work& work) { return work.owner == owner; });
}

void PutWorks::forget_target(std::uint16_t number) {
  forget_if([&](const Work& work) { return work.target.number == number; });
}

bool PutWorks::knows(const void* owner) const {
  return std::ranges::any_of(works_, [&](const auto& work) { return work->owner == owner; });
}

}  // namespace tutti::verbs
