#include "src/capi/comm.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/capi/errors.hpp"

namespace tutti::capi {

// ---- ScaledSums

Result<ncclRedOp_t> ScaledSums::add(const ScaledSum& op) {
  auto free = std::ranges::find_if(slots_, [](const auto& slot) { return !slot; });
  if (free == slots_.end()) {
    if (slots_.size() == kSlots) {
      return make_error(Code::kUnavailable,
                        "{} operators are alive on this communicator, the most there can be: "
                        "destroy some with ncclRedOpDestroy",
                        kSlots);
    }
    free = slots_.emplace(slots_.end());
  }
  *free = op;
  const auto slot = static_cast<std::uint32_t>(free - slots_.begin());
  return static_cast<ncclRedOp_t>(ncclNumOps + serial_ * kSlots + slot);
}

std::optional<std::size_t> ScaledSums::slot_of(int op) const {
  if (op < ncclNumOps) return std::nullopt;
  const auto value = static_cast<std::uint32_t>(op - ncclNumOps);
  if (value / kSlots != serial_ || value % kSlots >= slots_.size()) return std::nullopt;
  if (!slots_[value % kSlots]) return std::nullopt;
  return value % kSlots;
}

Status ScaledSums::remove(int op) {
  const auto slot = slot_of(op);
  if (!slot) {
    return make_error(Code::kInvalidArgument,
                      "op {} is not a live operator of this communicator: pass what "
                      "ncclRedOpCreatePreMulSum returned for it",
                      op);
  }
  slots_[*slot].reset();
  return ok_status();
}

Result<ScaledSum> ScaledSums::find(int op) const {
  if (const auto slot = slot_of(op)) return *slots_[*slot];
  return make_error(Code::kInvalidArgument,
                    "op {} is neither one of NCCL's (0..{}) nor a live operator of this "
                    "communicator",
                    op, ncclNumOps - 1);
}

// ---- Registrations

/// Registered before: once more.
Registrations::Entry* Registrations::known(std::span<std::byte> memory) {
  const auto same = [&](const auto& entry) {
    return entry->memory.data() == memory.data() && entry->memory.size() == memory.size();
  };
  const auto found = std::ranges::find_if(entries_, same);
  if (found == entries_.end()) return nullptr;
  ++(*found)->uses;
  return found->get();
}

void* Registrations::keep(Entry entry) {
  entries_.push_back(std::make_unique<Entry>(std::move(entry)));
  return entries_.back().get();
}

void* Registrations::add(std::span<std::byte> memory,
                         std::span<const std::shared_ptr<Transport>> transports) {
  if (Entry* const before = known(memory)) return before;
  Entry entry{memory, 1, {}};
  for (const auto& transport : transports) {
    auto registered = transport->register_memory(memory);
    if (registered)
      entry.registered.push_back(*std::move(registered));
    else
      log_warn("", "messages by {} copy what is in the buffer at {} of {} bytes: {}",
               transport->name(), static_cast<const void*>(memory.data()), memory.size(),
               registered.error().what);
  }
  return keep(std::move(entry));
}

void* Registrations::add(std::span<std::byte> memory, NicMemory* nics) {
  if (Entry* const before = known(memory)) return before;
  Entry entry{memory, 1, {}};
  if (nics != nullptr) {
    auto registered = nics->add(memory);
    if (registered)
      entry.registered.push_back(*std::move(registered));
    else
      log_info(Subsystem::kNet, "", "calls between hosts copy the {} bytes at {}: {}",
               memory.size(), static_cast<const void*>(memory.data()), registered.error().what);
  }
  return keep(std::move(entry));
}

Status Registrations::remove(const void* handle) {
  const auto found =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry.get() == handle; });
  if (found == entries_.end()) {
    return make_error(Code::kInvalidArgument,
                      "handle {} is not a live registration of this communicator", handle);
  }
  if (--(*found)->uses == 0) entries_.erase(found);
  return ok_status();
}

// ---- Comm

std::string Comm::who() const {
  if (phase.load(std::memory_order_acquire) == Phase::kStarting) return {};
  return fmt::format("[{} {}/{}]", member->facts().name, rank, size);
}

void Comm::note(const char* function, const Error& error) {
  std::scoped_lock lock(mutex_);
  last_error_ = fmt::format("{}: {}", function, error.what);
}

std::string Comm::last_error() const {
  std::scoped_lock lock(mutex_);
  return last_error_;
}

Status Comm::health() const {
  {
    std::scoped_lock lock(mutex_);
    if (failure_) return *failure_;
  }
  if (phase.load(std::memory_order_acquire) == Phase::kStarting) return ok_status();
  if (device) {
    const Status kernels = device->health();
    if (!kernels) member->abort(kernels.error());  // peers are to know
    TUTTI_TRY(kernels);
  }
  return member->health();
}

void Comm::set_failure(const Error& error) {
  std::scoped_lock lock(mutex_);
  if (!failure_) failure_ = error;
}

// ---- HandleTable

ncclComm* HandleTable::add(const CommConfig& config) {
  std::scoped_lock lock(mutex_);
  ncclComm* handle = nullptr;
  if (free_.empty()) {
    handle = &handles_.emplace_back();
  } else {
    handle = free_.back();
    free_.pop_back();
  }
  handle->comm = std::make_unique<Comm>(config, serial_);
  handle->runs_at_once.store(config.runs_at_once());
  handle->life.store(ncclComm::kLive << 32U | serial_++);
  return handle;
}

bool HandleTable::retire(const CommRef& comm) {
  std::uint64_t expected = comm.life;
  return comm.handle->life.compare_exchange_strong(expected, 0);
}

void HandleTable::release(ncclComm* handle) {
  for (std::uint32_t polls = 0; handle->pins.load() > 0; ++polls) {
    wait_once({}, polls, {});
  }
  std::unique_ptr<Comm> ended = std::move(handle->comm);
  {
    std::scoped_lock lock(mutex_);
    free_.push_back(handle);
  }
  ended.reset();  // outside the lock: says goodbye to its peers
}

// ---- CommRef

Status CommRef::check(const Pin& pin) const {
  if (pin.life() == life) return ok_status();
  return aborted_meanwhile();
}

std::string CommRef::who() const {
  const Pin pin(handle);
  return check(pin) ? handle->comm->who() : "";
}

Result<std::shared_ptr<TurnLater>> reserve_turn(const CommRef& comm) {
  auto turn = std::make_shared<TurnLater>(comm.handle->turns);
  if (comm.handle->life.load() == comm.life) return turn;
  return aborted_meanwhile();
}

Error aborted_meanwhile() {
  return make_error(Code::kAborted, "another thread aborted the communicator");
}

}  // namespace tutti::capi
