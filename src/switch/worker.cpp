#include "src/switch/worker.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::in_network {
namespace {

constexpr int kLeastProbes = 4;

TimeoutLimits limits_of(const WorkerOptions& options) {
  const Nanos greatest =
      std::max(std::min(options.silence / 8, options.greatest_timeout), Nanos(1));
  const Nanos least = std::clamp(options.least_timeout, Nanos(1), greatest);
  return {.first = std::clamp(options.first_timeout, least, greatest),
          .least = least,
          .greatest = greatest};
}

std::int64_t milliseconds_of(Nanos time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

}  // namespace

Worker::Worker(const WorkerOptions& options)
    : options_(options),
      window_(options.slots),
      resender_(options.slots, limits_of(options)),
      exponents_(options.slots),
      ready_(options.slots),
      is_ready_(options.slots) {}

Status Worker::begin(const Operation& operation, TimePoint now) {
  if (progress_ == Progress::kFailed) return error_;
  if (progress_ == Progress::kRunning)
    return make_error(Code::kInvalidUsage,
                      "an operation is running in this session; wait until it ends");
  if (options_.member.of > kMostMembers)
    return make_error(Code::kUnsupported, "a job of {} workers; switches add for at most {}",
                      options_.member.of, kMostMembers);
  TUTTI_TRY(supported(operation, options_.member.of));
  chunks_ = OperationChunks(operation, options_.member, options_.slots, operations_++);
  chunks_.copy_own();
  first_chunk_ = window_.end();
  window_.begin(chunks_.size());
  not_finite_ = false;
  missing_ = {};
  progress_ = window_.is_done() ? Progress::kDone : Progress::kRunning;
  heard(now);  // silence before does not count
  const std::uint64_t at_once = std::min<std::uint64_t>(chunks_.size(), options_.slots);
  for (std::uint64_t i = 0; i < at_once; ++i) make_ready(slot_of(first_chunk_ + i));
  return ok_status();
}

// --- sending ---

/// Notes that the slot's chunk may be sent, if it may: its turn has come, and its scale is known.
void Worker::make_ready(std::uint32_t slot) {
  const std::optional<std::uint64_t> chunk = window_.ready(slot);
  if (!chunk || is_ready_[slot]) return;
  const bool needs_scale = chunks_.is_scaled() && *chunk - first_chunk_ >= chunks_.leading();
  if (needs_scale && !exponent_for(*chunk)) return;
  is_ready_[slot] = true;
  ready_[(ready_first_ + ready_count_++) % ready_.size()] = slot;
}

std::optional<Exponent> Worker::exponent_for(std::uint64_t chunk) const {
  const KnownExponent& known = exponents_[slot_of(chunk)];
  if (known.chunk != chunk) return std::nullopt;
  return known.greatest;
}

std::optional<Packet> Worker::next_packet(TimePoint now, PacketBytes& room) {
  if (progress_ != Progress::kRunning) return std::nullopt;
  give_up_if_silent(now);
  if (progress_ != Progress::kRunning) return std::nullopt;
  if (const std::optional<std::uint32_t> slot = resender_.due(now))
    return next_sending(*slot, now, room);
  if (ready_count_ == 0) return std::nullopt;
  const std::uint32_t slot = ready_[ready_first_];
  ready_first_ = (ready_first_ + 1) % ready_.size();
  --ready_count_;
  is_ready_[slot] = false;
  return first_sending(slot, now, room);
}

Packet Worker::first_sending(std::uint32_t slot, TimePoint now, PacketBytes& room) {
  const std::uint64_t chunk = *window_.ready(slot);
  if (resender_.is_idle()) heard(now);  // nobody had to answer before
  window_.sent(slot);
  resender_.sent(slot, now);
  const Packet packet = contribution(chunk, room);
  ++(packet.values.empty() ? counts_.without_values : counts_.with_values);
  return packet;
}

Packet Worker::next_sending(std::uint32_t slot, TimePoint now, PacketBytes& room) {
  if (probes_ == 0 || now - probed_at_ >= resender_.timeout() / 2) {
    ++probes_;
    probed_at_ = now;
  }
  resender_.sent_again(slot, now);
  ++counts_.sent_again;
  return contribution(window_.awaited(slot), room);
}

Packet Worker::contribution(std::uint64_t chunk, PacketBytes& room) const {
  const std::uint64_t index = chunk - first_chunk_;
  const OperationChunks::Piece piece = chunks_.piece(index);
  return {.kind = PacketKind::kContribution,
          .sender = options_.worker,
          .lanes = chunks_.lanes(),
          .session = options_.session,
          .chunk = chunk,
          .count = piece.count,
          .exponent = not_finite_ ? kNotFinite : chunks_.exponent_carried(index),
          .wants = piece.output != nullptr && !not_finite_,
          .call = chunks_.call(),
          .values = values_of(chunk, piece, room)};
}

std::span<const std::byte> Worker::values_of(std::uint64_t chunk,
                                             const OperationChunks::Piece& piece,
                                             PacketBytes& room) const {
  if (piece.input == nullptr || piece.count == 0 || not_finite_) return {};
  const auto values =
      std::span(room).subspan(kPacketHeaderBytes, piece.count * width_of(chunks_.lanes()));
  if (!chunks_.is_scaled()) {
    if (piece.bytes < values.size()) std::memset(values.last(4).data(), 0, 4);
    std::memcpy(values.data(), piece.input, piece.bytes);
    return values;
  }
  const Exponent greatest = exponent_for(chunk).value_or(kAllZero);
  if (!has_steps(greatest)) return {};  // all are zero
  quantise(chunks_.type(), piece.input, piece.count, scale_of(greatest, chunks_.fixed()),
           values.data(), chunks_.factor());
  return values;
}

std::optional<TimePoint> Worker::next_deadline() const {
  if (progress_ != Progress::kRunning) return std::nullopt;
  const std::optional<TimePoint> again = resender_.deadline();
  if (!again || probes_ < kLeastProbes) return again;
  return std::min(*again, heard_at_ + patience());
}

// --- receiving ---

void Worker::received(const Packet& packet, TimePoint now) {
  heard(now);
  if (progress_ != Progress::kRunning) return;
  switch (packet.kind) {
    case PacketKind::kContribution:
      return;
    case PacketKind::kResult:
      return take_result(packet, now);
    case PacketKind::kWaiting:
      if (window_.awaits(packet.chunk))
        missing_ = {.workers = packet.workers, .level = packet.level};
      return;
    case PacketKind::kRefusal:
      return refused(packet);
  }
}

void Worker::take_result(const Packet& packet, TimePoint now) {
  if (!window_.awaits(packet.chunk)) return;  // a copy
  const OperationChunks::Piece piece = chunks_.piece(packet.chunk - first_chunk_);
  if (packet.left_out && piece.output != nullptr && !not_finite_) return;  // meant for others
  if (Status right = check_result(packet, piece); !right) return fail(std::move(right).error());
  window_.accept(packet.chunk);
  const bool was_last = (packet.workers >> options_.worker & 1) != 0;
  resender_.answered(slot_of(packet.chunk), now, was_last);
  ++(packet.values.empty() ? counts_.results_without_values : counts_.results_with_values);
  missing_ = {};
  write_result(packet, piece);
  learn_exponent(packet);
  make_ready(slot_of(packet.chunk));
  if (!window_.is_done()) return;
  progress_ = not_finite_ ? Progress::kNotFinite : Progress::kDone;
}

Status Worker::check_result(const Packet& packet, const OperationChunks::Piece& piece) const {
  if (packet.lanes != chunks_.lanes() || packet.count != piece.count ||
      packet.call != chunks_.call())
    return make_error(Code::kPeerFailed,
                      "the result of chunk {} has {} values of {} where {} values of {} are due; "
                      "{}",
                      packet.chunk, packet.count, name_of(packet.lanes), piece.count,
                      name_of(chunks_.lanes()), meaning_of(Refusal::kCallsDiffer));
  if (!is_exponent(packet.exponent) && chunks_.is_scaled())
    return make_error(Code::kPeerFailed,
                      "the result of chunk {} has the exponent {}, which no "
                      "float has",
                      packet.chunk, packet.exponent);
  if (piece.output == nullptr || not_finite_ || !packet.values.empty()) return ok_status();
  if (chunks_.is_scaled() && !has_steps(exponent_for(packet.chunk).value_or(kAllZero)))
    return ok_status();  // zeros
  return make_error(Code::kPeerFailed,
                    "the result of chunk {} has no values: no worker sent any, so workers do not "
                    "agree who does",
                    packet.chunk);
}

void Worker::write_result(const Packet& packet, const OperationChunks::Piece& piece) const {
  if (piece.output == nullptr || not_finite_) return;
  if (packet.values.empty()) {
    std::memset(piece.output, 0, piece.bytes);
  } else if (chunks_.is_scaled()) {
    const Exponent greatest = exponent_for(packet.chunk).value_or(kAllZero);
    if (!has_steps(greatest)) return;
    dequantise(chunks_.type(), packet.values, scale_of(greatest, chunks_.fixed()), piece.output);
  } else {
    std::memcpy(piece.output, packet.values.data(), piece.bytes);
  }
}

/// The result of chunk i of an operation tells the scale of its values' chunk i.
void Worker::learn_exponent(const Packet& packet) {
  if (!chunks_.is_scaled()) return;
  if (packet.exponent == kNotFinite) not_finite_ = true;
  const std::uint64_t index = packet.chunk - first_chunk_ + chunks_.leading();
  if (index >= chunks_.size()) return;
  const std::uint64_t chunk = first_chunk_ + index;
  exponents_[slot_of(chunk)] = {.chunk = chunk, .greatest = packet.exponent};
  make_ready(slot_of(chunk));
}

void Worker::refused(const Packet& packet) {
  if (packet.reason != Refusal::kUnknownSession && !window_.awaits(packet.chunk)) return;
  fail(make_error(Code::kPeerFailed, "the switch refuses chunk {} ({} values of {}): {}",
                  packet.chunk, packet.count, name_of(packet.lanes), meaning_of(packet.reason)));
}

// --- silence ---

void Worker::heard(TimePoint now) {
  heard_at_ = now;
  probes_ = 0;
  hinted_ = false;
}

void Worker::give_up_if_silent(TimePoint now) {
  if (resender_.is_idle() || probes_ < kLeastProbes || now - heard_at_ < patience()) return;
  const auto silent = milliseconds_of(now - heard_at_);
  if (hinted_)
    return fail(make_error(Code::kPeerFailed,
                           "{}, and has been silent for {} ms; open another session",
                           meaning_of(Refusal::kUnknownSession), silent));
  fail(
      make_error(Code::kTimeout,
                 "the switch has been silent for {} ms, in which packets were sent {} times; it or "
                 "the network is down",
                 silent, probes_));
}

void Worker::fail(Error error) {
  progress_ = Progress::kFailed;
  error_ = std::move(error);
}

}  // namespace tutti::in_network
