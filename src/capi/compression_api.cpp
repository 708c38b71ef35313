// tuttiCompression*, and the handle's part of compressed calls (call_api.cpp has the calls).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <vector>

#include "src/capi/answer.hpp"
#include "src/capi/compression.hpp"
#include "src/capi/process.hpp"
#include "src/capi/text_out.hpp"
#include "src/comm/compressor.hpp"

using namespace tutti::capi;  // NOLINT(*-using-namespace): this file is the outside of that
                              // namespace
using tutti::Code;
using tutti::make_error;
using tutti::Result;

ncclResult_t tuttiCompressionCreate(tuttiCompression_t* compression, const char* how) {
  return answer("tuttiCompressionCreate", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_out(compression, "compression"));
    if (how == nullptr)
      return make_error(Code::kInvalidArgument, "how is NULL: a format was expected, as in int8");
    TUTTI_ASSIGN(auto parsed, tutti::codec::parse_compression(how));
    *compression = process().compressions.add(std::move(parsed));
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionDestroy(tuttiCompression_t compression) {
  return answer("tuttiCompressionDestroy", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(process().compressions.remove(compression));
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionText(tuttiCompression_t compression, char* text, size_t bytes) {
  return answer("tuttiCompressionText", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    TUTTI_TRY(check_text_out(text, bytes));
    copy_text(ours->compression().text(), text, bytes);
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionSize(tuttiCompression_t compression, size_t count,
                                  tuttiEncodedSize* size) {
  return answer("tuttiCompressionSize", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    TUTTI_TRY(check_out(size, "size"));
    const tutti::codec::Format& format = *ours->compression().format;
    const std::size_t bytes = format.bytes(count);
    const auto own = static_cast<std::size_t>(
        std::ceil(static_cast<double>(count) * format.traits().value_bits / 8));
    *size = {bytes, bytes - std::min(bytes, own), format.traits().block};
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionSetCallNumber(tuttiCompression_t compression,
                                           unsigned long long number) {
  return answer("tuttiCompressionSetCallNumber", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    ours->set_call_number(number);
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionBusySeconds(tuttiCompression_t compression, double* seconds) {
  return answer("tuttiCompressionBusySeconds", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    TUTTI_TRY(check_out(seconds, "seconds"));
    *seconds = std::chrono::duration<double>(ours->busy()).count();
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionErrorCount(tuttiCompression_t compression, size_t* count) {
  return answer("tuttiCompressionErrorCount", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    TUTTI_TRY(check_out(count, "count"));
    *count = ours->error_count();
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionGetErrors(tuttiCompression_t compression, float* errors,
                                       size_t count) {
  return answer("tuttiCompressionGetErrors", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    if (count > 0 && count == ours->error_count()) TUTTI_TRY(check_out(errors, "errors"));
    TUTTI_TRY(ours->copy_errors({errors, count}));
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionSetErrors(tuttiCompression_t compression, const float* errors,
                                       size_t count) {
  return answer("tuttiCompressionSetErrors", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    if (count > 0 && errors == nullptr)
      return make_error(Code::kInvalidArgument, "errors is NULL, and count is {}", count);
    TUTTI_TRY(ours->set_errors({errors, count}));
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionOwe(tuttiCompression_t compression, const float* owed, size_t count) {
  return answer("tuttiCompressionOwe", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    if (count > 0 && owed == nullptr)
      return make_error(Code::kInvalidArgument, "owed is NULL, and count is {}", count);
    TUTTI_TRY(ours->owe({owed, count}));
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionReset(tuttiCompression_t compression) {
  return answer("tuttiCompressionReset", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, process().compressions.find(compression));
    ours->reset();
    return ncclSuccess;
  });
}

ncclResult_t tuttiCompressionMoveErrors(const float* const errors[], const size_t counts[],
                                        int ranks, size_t elements, int rank, int new_ranks,
                                        float* owed) {
  return answer("tuttiCompressionMoveErrors", nullptr, [&]() -> Result<ncclResult_t> {
    if (ranks < 1 || new_ranks < 1 || rank < 0 || rank >= new_ranks)
      return make_error(Code::kInvalidArgument,
                        "errors of {} ranks for rank {} of {}: there is no such rank", ranks, rank,
                        new_ranks);
    if (elements > 0) TUTTI_TRY(check_out(owed, "owed"));
    if (errors == nullptr || counts == nullptr)
      return make_error(Code::kInvalidArgument, "errors or counts is NULL");
    std::vector<std::span<const float>> old_errors;
    for (int old = 0; old < ranks; ++old) {
      if (counts[old] > 0 && errors[old] == nullptr)
        return make_error(Code::kInvalidArgument, "errors[{}] is NULL, and counts[{}] is {}", old,
                          old, counts[old]);
      old_errors.emplace_back(errors[old], counts[old]);
    }
    TUTTI_TRY(tutti::move_errors(old_errors, rank, new_ranks, {owed, elements}));
    return ncclSuccess;
  });
}
