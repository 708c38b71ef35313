#include "training/torch/failure.hpp"

#include <new>

#include <c10/util/Exception.h>

#include "training/outcome.hpp"

namespace tutti::training {

Error current_error() {
  try {
    throw;
  } catch (const Failure& failed) {
    return failed.error();
  } catch (const std::bad_alloc&) {
    return failure(Code::kUnavailable, "no memory is left for a tensor");
  } catch (const c10::OutOfMemoryError& error) {
    return failure(Code::kUnavailable, "LibTorch: {}", error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return failure(Code::kInvalidArgument, "LibTorch: {}", error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failure(Code::kInvalidArgument, "the model: {}", error.what());
  } catch (...) {
    return failure(Code::kInvalidArgument, "the model threw what is no std::exception");
  }
}

}  // namespace tutti::training
