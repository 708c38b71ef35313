#include "tools/doctor/line.hpp"

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti::doctor {
namespace {

Blob blob_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<Line> Line::open(const std::shared_ptr<Service>& service, const MeetingPoint& point,
                        Rank other, const JoinOptions& options, Deadline deadline) {
  const Key key = derive_key(point.id.key, "tutti doctor", as_bytes(std::to_string(other)));
  const SocketAddress& hub = point.id.addresses.front();
  const bool asks = point.rank == 0;
  if (asks) {
    RootOptions root;
    root.address = hub;
    root.key = key;
    root.liveness = options.liveness;
    TUTTI_TRY(serve_root(service, root));
  }
  JoinOptions join_options = options;
  join_options.awaited = true;
  TUTTI_ASSIGN(auto pair, join(service, unique_id_of(key, hub), asks ? 0 : 1, 2, join_options,
                               deadline));
  return Line(std::move(pair));
}

Result<std::string> Line::exchange(std::string_view mine, Deadline deadline) {
  TUTTI_ASSIGN(const auto blobs, pair_->all_gather(blob_of(mine), deadline));
  const Blob& other = blobs[pair_->rank() == 0 ? 1 : 0];
  return std::string(reinterpret_cast<const char*>(other.data()), other.size());
}

Result<std::string> Line::ask(std::string_view question, Deadline deadline) {
  TUTTI_TRY(exchange(question, deadline));
  return exchange("", deadline);
}

Status Line::serve(const Answer& answer) {
  for (;;) {
    TUTTI_ASSIGN(const std::string question, exchange("", Deadline::never()));
    const auto said = answer(question);
    TUTTI_TRY(exchange(said.value_or(""), Deadline::never()));
    if (!said) return ok_status();
  }
}

}  // namespace tutti::doctor
