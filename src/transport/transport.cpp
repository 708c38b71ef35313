#include "src/transport/transport.hpp"

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/codec/compression.hpp"

namespace tutti {

std::string describe(const CallSignature& call) {
  std::string text = call.blocks == 0
                         ? fmt::format("{}(count={}, ", name_of(call.collective), call.count)
                         : fmt::format("{}_v({} elements, counts of hash {:08x}, ",
                                       name_of(call.collective), call.count, call.blocks);
  text += name_of(call.type);
  if (reduces(call.collective)) text += fmt::format(", {}", name_of(call.op));
  if (rooted(call.collective)) text += fmt::format(", root={}", call.root);
  if (call.collective == Collective::kSend || call.collective == Collective::kRecv)
    text += fmt::format(", peer={}", call.root);
  if (call.compression != 0)
    text += fmt::format(", compressed as {}", codec::describe_code(call.compression));
  return text + ")";
}

Result<std::shared_ptr<const void>> Transport::register_memory(std::span<std::byte>) {
  return std::shared_ptr<const void>();
}

Result<DeviceRegistration> Transport::register_device_memory(const DeviceBuffer&) {
  return make_error(Code::kUnsupported, "{} reaches no memory of GPUs", name());
}

Status Transport::prepare_for(std::size_t) { return ok_status(); }

}  // namespace tutti
