// Threads of the library.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "tutti/error.hpp"

namespace tutti {

/// A thread that gets no signals: they are the program's, whose handlers run on its own threads.
/// `what`: for the error, such as "the service thread". kUnavailable: the system has no more.
Result<std::thread> start_own_thread(std::string_view what, std::function<void()> body);

}  // namespace tutti
