#include "src/plugin/collnet_plugin.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::plugin {
namespace {

constexpr Interface<CollNetCalls> kCollNetInterface{kCollNet, "collective network plugin",
                                                    collnet_calls};

RawPart raw(const Part& part) {
  return {part.bytes.data(), part.bytes.size(), part.memory->handle()};
}

int number_of(DataType type) { return static_cast<int>(type); }
int number_of(ReduceOp op) { return static_cast<int>(op); }

}  // namespace

// --- the plugin ---

Result<std::shared_ptr<CollNetPlugin>> CollNetPlugin::open(const std::string& name,
                                                           const StartOptions& options) {
  TUTTI_ASSIGN(auto opened, plugin::open(kCollNetInterface, name, options));
  return std::shared_ptr<CollNetPlugin>(
      new CollNetPlugin(std::move(opened.plugin), std::move(opened.calls)));
}

Result<std::unique_ptr<CollNetListener>> CollNetPlugin::listen(int device) const {
  Handle address{};
  void* comm = nullptr;
  const abi::Outcome outcome = calls_->listen(plugin_->context, device, address.data(), &comm);
  if (outcome != abi::kSuccess || comm == nullptr)
    return plugin_error(plugin_->who, "listen", outcome);
  return std::make_unique<CollNetListener>(plugin_, comm, address, device);
}

Result<std::shared_ptr<CollNetGroup>> CollNetPlugin::connect(const CollNetListener& listener,
                                                             std::vector<Handle> addresses,
                                                             int rank) const {
  if (addresses.size() > std::numeric_limits<int>::max() || rank < 0 ||
      static_cast<std::size_t>(rank) >= addresses.size())
    return make_error(Code::kInvalidArgument, "there is no rank {} of {}", rank, addresses.size());
  std::vector<void*> handles;
  for (Handle& address : addresses) handles.push_back(address.data());
  void* comm = nullptr;
  const abi::Outcome outcome = calls_->connect(handles.data(), static_cast<int>(handles.size()),
                                               rank, listener.handle(), &comm);
  if (outcome != abi::kSuccess || comm == nullptr)
    return plugin_error(plugin_->who, "connect", outcome);
  const auto& device = plugin_->devices.at(static_cast<std::size_t>(listener.device()));
  return std::make_shared<CollNetGroup>(plugin_, calls_, comm, addresses.size(),
                                        static_cast<std::size_t>(rank), device);
}

// --- a group ---

CollNetGroup::CollNetGroup(SharedPlugin plugin, std::shared_ptr<const CollNetCalls> calls,
                           void* comm, std::size_t ranks, std::size_t rank,
                           const DeviceProperties& device)
    : Comm(std::move(plugin), CommKind::kCollective, comm),
      calls_(std::move(calls)),
      ranks_(ranks),
      rank_(rank),
      most_bytes_(std::min(device.most_collective_bytes, calls_->most_window_bytes())) {}

Result<bool> CollNetGroup::supports(const Reduction& reduction) const {
  // The scalar of such an operator has no place in the interface.
  if (reduction.op == ReduceOp::kPreMulSum) return false;
  int supported = 0;
  const abi::Outcome outcome =
      calls_->reduce_support(number_of(reduction.type), number_of(reduction.op), &supported);
  if (outcome != abi::kSuccess) return error("reduceSupport", outcome);
  return supported != 0;
}

/// Where its library fails, SHARP's plugin reports success and says in its log alone that there was
/// an error. The request that it gives then may not be tested.
template <class Issue>
Result<std::optional<Request>> CollNetGroup::begin(const char* doing, std::span<const Part> parts,
                                                   Issue issue) {
  if (!has_room()) return std::optional<Request>();
  (void)take_last_warning();
  void* request = nullptr;
  const abi::Outcome outcome = issue(&request);
  const std::string warning = outcome == abi::kSuccess ? take_last_warning() : std::string();
  auto begun = issued(doing, outcome, request, parts);
  if (!begun || !*begun || warning.empty()) return begun;
  return make_error(Code::kInternal, "{} failed in {}, by its log: {}", plugin().who, doing,
                    warning);
}

Result<std::optional<Request>> CollNetGroup::all_reduce(const Part& send, const Part& receive,
                                                        const Reduction& reduction) {
  TUTTI_TRY(check("iallreduce", send));
  TUTTI_TRY(check("iallreduce", receive));
  const std::size_t bytes = send.bytes.size();
  const std::size_t count = bytes / size_of(reduction.type);
  if (bytes != receive.bytes.size() || bytes % size_of(reduction.type) != 0)
    return make_error(Code::kInvalidArgument, "an all-reduce of {} bytes of {} into {}", bytes,
                      name_of(reduction.type), receive.bytes.size());
  if (bytes > most_bytes_ || count > most_elements())
    return make_error(Code::kInvalidArgument, "{} reduces at most {} bytes and {} elements, not {}",
                      plugin().who, most_bytes_, most_elements(), bytes);
  return begin("iallreduce", std::array{send, receive}, [&](void** request) {
    return calls_->all_reduce(handle(), raw(send), raw(receive), count, number_of(reduction.type),
                              number_of(reduction.op), request);
  });
}

std::size_t CollNetGroup::own_bytes(const Window& window) const {
  const std::size_t begin = std::max(window.offset, rank_ * window.bytes_per_rank);
  const std::size_t end =
      std::min(window.offset + window.bytes, (rank_ + 1) * window.bytes_per_rank);
  return end > begin ? end - begin : 0;
}

Status CollNetGroup::check_window(const char* doing, const Part& whole, const Part& own,
                                  const Window& window) const {
  const std::size_t most = std::numeric_limits<std::size_t>::max() / ranks_;
  const std::size_t all = window.bytes_per_rank * ranks_;
  if (window.bytes_per_rank > most || window.offset > all || window.bytes > all - window.offset)
    return make_error(Code::kInvalidArgument, "{}: a window of {} bytes at {} of {} times {}",
                      doing, window.bytes, window.offset, ranks_, window.bytes_per_rank);
  if (window.bytes > most_bytes_)
    return make_error(Code::kInvalidArgument, "{} takes windows of at most {} bytes, not {}",
                      plugin().who, most_bytes_, window.bytes);
  if (whole.bytes.size() != window.bytes || own.bytes.size() != own_bytes(window))
    return make_error(Code::kInvalidArgument,
                      "{}: buffers of {} and {} bytes for a window with {} and {}", doing,
                      whole.bytes.size(), own.bytes.size(), window.bytes, own_bytes(window));
  TUTTI_TRY(check(doing, whole));
  return check(doing, own);
}

Result<std::optional<Request>> CollNetGroup::all_gather(const Part& send, const Part& receive,
                                                        const Window& window) {
  if (!gathers()) return make_error(Code::kUnsupported, "{} has no iallgather", plugin().who);
  TUTTI_TRY(check_window("iallgather", receive, send, window));
  return begin("iallgather", std::array{send, receive}, [&](void** request) {
    return calls_->all_gather(handle(), raw(send), raw(receive), window, request);
  });
}

Result<std::optional<Request>> CollNetGroup::reduce_scatter(const Part& send, const Part& receive,
                                                            const Window& window,
                                                            const Reduction& reduction) {
  if (!scatters()) return make_error(Code::kUnsupported, "{} has no ireducescatter", plugin().who);
  TUTTI_TRY(check_window("ireducescatter", send, receive, window));
  const std::size_t element = size_of(reduction.type);
  if (window.bytes_per_rank % element != 0 || window.offset % element != 0 ||
      window.bytes % element != 0)
    return make_error(Code::kInvalidArgument, "ireducescatter: the window cuts elements of {}",
                      name_of(reduction.type));
  return begin("ireducescatter", std::array{send, receive}, [&](void** request) {
    return calls_->reduce_scatter(handle(), raw(send), raw(receive), window,
                                  number_of(reduction.type), number_of(reduction.op), request);
  });
}

Result<std::optional<Request>> CollNetGroup::flush(const Part& part) {
  if (!calls_->flushes()) return make_error(Code::kUnsupported, "{} has no iflush", plugin().who);
  TUTTI_TRY(check("iflush", part));
  if (part.bytes.size() > std::numeric_limits<int>::max())
    return make_error(Code::kInvalidArgument, "iflush takes no {} bytes", part.bytes.size());
  TUTTI_TRY(check_room("iflush"));
  void* request = nullptr;
  const abi::Outcome outcome = calls_->flush(handle(), raw(part), &request);
  return issued("iflush", outcome, request, std::array{part});
}

}  // namespace tutti::plugin
