// Questions and answers between rank 0 and one other rank, over a group of these two. So a rank
// that dies or falls silent ends its own line only.
//
// A text travels in pieces, each of which is answered before the next one leaves. So it also passes
// where large packets are lost, which the doctor is to find out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/clock.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/launcher.hpp"
#include "tutti/error.hpp"

namespace tutti::doctor {

/// Resource. One thread at a time.
class Line {
 public:
  /// Joins rank 0 and rank `other` of the job that met at `point`. Both call it; returns when both
  /// have, or at the deadline.
  static Result<Line> open(const std::shared_ptr<Service>& service, const MeetingPoint& point,
                           Rank other, const JoinOptions& options, Deadline deadline);

  /// Rank 0: asks, and waits for the answer. After an error the line is of no more use.
  Result<std::string> ask(std::string_view question, Deadline deadline);

  /// The other rank: answers until `answer` returns nothing, which ends the line in good order.
  /// Waits for questions as long as rank 0 lives; its silence ends the wait (TUTTI_LIVENESS).
  using Answer = std::function<std::optional<std::string>(std::string_view question)>;
  Status serve(const Answer& answer);

 private:
  explicit Line(std::unique_ptr<Bootstrap> pair) : pair_(std::move(pair)) {}
  Status send(std::string_view text, Deadline deadline);
  Result<std::string> receive(Deadline deadline);
  /// What the other one says, for what this one says.
  Result<std::string> exchange(std::string_view mine, Deadline deadline);

  std::unique_ptr<Bootstrap> pair_;
};

}  // namespace tutti::doctor
