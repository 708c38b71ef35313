#include "src/plugin/comm.hpp"

#include <utility>

#include "src/base/keep_for_good.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/plugin/plugin_log.hpp"

namespace tutti::plugin {
namespace {

Code code_of(abi::Outcome outcome) {
  switch (outcome) {
    case abi::kCudaError:
      return Code::kDevice;
    case abi::kSystemError:
      return Code::kUnavailable;
    case abi::kInvalidArgument:
      return Code::kInvalidArgument;
    case abi::kInvalidUsage:
      return Code::kInvalidUsage;
    case abi::kRemoteError:
      return Code::kPeerFailed;
    default:
      return Code::kInternal;
  }
}

/// For calls whose failure changes nothing any more.
void log_failure(const std::string& who, const char* doing, abi::Outcome outcome) {
  if (outcome != abi::kSuccess) log_warn("", "{}", plugin_error(who, doing, outcome).what);
}

}  // namespace

std::string describe(abi::Outcome outcome) {
  constexpr const char* kWords[] = {"success",           "a CUDA error",        "a system error",
                                    "an internal error", "an invalid argument", "an invalid use",
                                    "a remote error",    "still in progress"};
  if (outcome < 0 || outcome >= static_cast<int>(std::size(kWords)))
    return fmt::format("the unknown error {}", outcome);
  return fmt::format("{} ({})", kWords[outcome], outcome);
}

Error plugin_error(const std::string& who, const char* doing, abi::Outcome outcome) {
  const std::string warning = take_last_warning();
  return make_error(code_of(outcome), "{} failed in {}: {}{}{}", who, doing, describe(outcome),
                    warning.empty() ? "" : "; it said: ", warning);
}

// --- the plugin ---

Started::Started(std::shared_ptr<const PluginCalls> its_calls, std::string its_name)
    : calls(std::move(its_calls)), who(std::move(its_name)) {}

Started::~Started() {
  if (calls->has_contexts()) log_failure(who, "finalize", calls->finalize(context));
}

// --- memory ---

Registration::~Registration() {
  const Started& plugin = comm_->plugin();
  log_failure(plugin.who, "deregMr", plugin.calls->deregister(comm_->handle(), handle_));
}

Result<SharedRegistration> Comm::registered(const char* doing, abi::Outcome outcome, Memory memory,
                                            void* handle) {
  if (outcome != abi::kSuccess) return error(doing, outcome);
  return SharedRegistration(
      std::make_shared<Registration>(shared_from_this(), std::move(memory), handle));
}

Result<SharedRegistration> Comm::register_memory(Memory memory) {
  const PluginCalls& calls = *plugin_->calls;
  if (memory.bytes.size() > calls.most_registered_bytes())
    return make_error(Code::kInvalidArgument, "{} registers at most {} bytes at once, not {}",
                      plugin_->who, calls.most_registered_bytes(), memory.bytes.size());
  void* handle = nullptr;
  const abi::Outcome outcome = calls.register_memory(
      handle_, memory.bytes.data(), memory.bytes.size(), static_cast<int>(memory.kind), &handle);
  return registered("regMr", outcome, std::move(memory), handle);
}

Result<SharedRegistration> Comm::register_dma_buf(Memory memory, const DmaBuf& buffer) {
  const PluginCalls& calls = *plugin_->calls;
  if (!calls.takes_dma_bufs())
    return make_error(Code::kUnsupported, "{} takes no DMA-BUFs", plugin_->who);
  void* handle = nullptr;
  const abi::Outcome outcome =
      calls.register_dma_buf(handle_, memory.bytes.data(), memory.bytes.size(),
                             static_cast<int>(memory.kind), buffer.offset, buffer.fd, &handle);
  return registered("regMrDmaBuf", outcome, std::move(memory), handle);
}

// --- a comm ---

Comm::~Comm() {
  constexpr const char* kNames[] = {"closeListen", "closeSend", "closeRecv", "closeColl"};
  log_failure(plugin_->who, kNames[static_cast<int>(kind_)], plugin_->calls->close(kind_, handle_));
}

Status Comm::check(const char* doing, const Part& part) const {
  if (part.memory == nullptr || part.memory->comm() != this)
    return make_error(Code::kInvalidArgument, "{} of {} needs memory registered with its comm",
                      doing, plugin_->who);
  const std::span<std::byte> all = part.memory->bytes();
  const auto* const first = part.bytes.data();
  if (first < all.data() || first + part.bytes.size() > all.data() + all.size())
    return make_error(Code::kInvalidArgument,
                      "{} of {} names {} bytes that are not all within the registered {}", doing,
                      plugin_->who, part.bytes.size(), all.size());
  return ok_status();
}

Status Comm::check_room(const char* doing) const {
  if (has_room()) return ok_status();
  return make_error(Code::kUnavailable, "{} of {} has to wait until one of {} requests is over",
                    doing, plugin_->who, under_way_);
}

Result<std::optional<Request>> Comm::issued(const char* doing, abi::Outcome outcome, void* request,
                                            std::span<const Part> parts, std::size_t arriving) {
  if (outcome != abi::kSuccess) return error(doing, outcome);
  if (request == nullptr) return std::optional<Request>();
  return std::optional(Request(shared_from_this(), request, parts, arriving));
}

// --- requests ---

Request::Request(SharedComm comm, void* handle, std::span<const Part> parts, std::size_t arriving)
    : comm_(std::move(comm)),
      handle_(handle),
      parts_(parts.begin(), parts.end()),
      arriving_(arriving) {
  comm_->count_request(1);
}

Request::Request(Request&& other) noexcept
    : comm_(std::move(other.comm_)),
      handle_(std::exchange(other.handle_, nullptr)),
      parts_(std::move(other.parts_)),
      arriving_(other.arriving_),
      sizes_(other.sizes_) {}

Request& Request::operator=(Request&& other) noexcept {
  if (this == &other) return *this;
  give_up();
  comm_ = std::move(other.comm_);
  handle_ = std::exchange(other.handle_, nullptr);
  parts_ = std::move(other.parts_);
  arriving_ = other.arriving_;
  sizes_ = other.sizes_;
  return *this;
}

Result<bool> Request::test() {
  if (is_over()) return make_error(Code::kInvalidUsage, "the request is over");
  const Started& plugin = comm_->plugin();
  int done = 0;
  std::array<int, kMostParts> sizes{};
  const abi::Outcome outcome = plugin.calls->test(handle_, &done, sizes.data());
  if (outcome == abi::kSuccess && done == 0) return false;
  const Status well = outcome != abi::kSuccess ? Status(plugin_error(plugin.who, "test", outcome))
                                               : take_sizes(std::span(sizes).first(arriving_));
  end();
  if (!well) return well.error();
  return true;
}

Status Request::take_sizes(std::span<const int> sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes_[i] = 0;
    if (sizes[i] >= 0) sizes_[i] = static_cast<std::size_t>(sizes[i]);
    if (sizes[i] < 0 || sizes_[i] > parts_[i].bytes.size())
      return make_error(Code::kInternal, "{} says that {} bytes arrived where {} have room",
                        comm_->plugin().who, sizes[i], parts_[i].bytes.size());
  }
  return ok_status();
}

void Request::end() {
  handle_ = nullptr;
  parts_.clear();
  comm_->count_request(-1);
  comm_.reset();
}

void Request::give_up() {
  if (is_over()) return;
  auto kept = std::make_shared<std::pair<SharedComm, std::vector<Part>>>(std::move(comm_),
                                                                         std::move(parts_));
  log_info(Subsystem::kNet, "", "a request of {} was dropped: its memory stays registered",
           kept->first->plugin().who);
  keep_for_good(std::move(kept));
  handle_ = nullptr;
}

}  // namespace tutti::plugin
