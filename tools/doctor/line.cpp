#include "tools/doctor/line.hpp"

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t kPieceBytes = 1000;  // a packet of any network has room for it
constexpr std::size_t kLongestMessage = std::size_t{512} << 10;
constexpr char kMore = '+';  // the first byte of a piece
constexpr char kLast = '.';

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
    RootOptions root = point.root;
    root.key = key;
    root.stays = false;
    TUTTI_TRY(serve_root(service, root));
  }
  JoinOptions join_options = options;
  join_options.awaited = true;
  TUTTI_ASSIGN(auto pair,
               join(service, unique_id_of(key, hub), asks ? 0 : 1, 2, join_options, deadline));
  return Line(std::move(pair));
}

Result<std::string> Line::exchange(std::string_view mine, Deadline deadline) {
  TUTTI_ASSIGN(const auto blobs, pair_->all_gather(blob_of(mine), deadline));
  const Blob& other = blobs[pair_->rank() == 0 ? 1 : 0];
  return std::string(reinterpret_cast<const char*>(other.data()), other.size());
}

Status Line::send(std::string_view text, Deadline deadline) {
  do {
    const std::string_view piece = text.substr(0, kPieceBytes);
    text.remove_prefix(piece.size());
    TUTTI_TRY(exchange((text.empty() ? kLast : kMore) + std::string(piece), deadline));
  } while (!text.empty());
  return ok_status();
}

Result<std::string> Line::receive(Deadline deadline) {
  for (std::string text;;) {
    TUTTI_ASSIGN(const std::string piece, exchange("", deadline));
    if (piece.empty() || text.size() + piece.size() > kLongestMessage)
      return make_error(Code::kWrongData,
                        "the other side breaks the protocol of tutti doctor: is "
                        "it of another version?");
    text.append(piece, 1);
    if (piece.front() != kMore) return text;
  }
}

Result<std::string> Line::ask(std::string_view question, Deadline deadline) {
  TUTTI_TRY(send(question, deadline));
  return receive(deadline);
}

Status Line::serve(const Answer& answer) {
  for (;;) {
    TUTTI_ASSIGN(const std::string question, receive(Deadline::never()));
    const auto said = answer(question);
    TUTTI_TRY(send(said.value_or(""), Deadline::never()));
    if (!said) return ok_status();
  }
}

}  // namespace tutti::doctor
