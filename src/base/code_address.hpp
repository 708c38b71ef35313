// Describes an address in the program's code for messages.
#pragma once

#include <string>

namespace tutti {

/// "module(symbol+0xoffset)" with a demangled symbol, or "module(+0xoffset)" if the symbol is not
/// exported; `addr2line -e module` accepts the offset. "0xaddress" if no loaded module contains it.
/// To get the line of a call, pass an address inside the call instruction: the return address minus
/// one.
std::string describe_code_address(const void* address);

}  // namespace tutti
