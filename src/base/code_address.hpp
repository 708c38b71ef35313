// Where in the program's code an address lies, for messages.
#pragma once

#include <string>

namespace tutti {

/// "module(symbol+0xoffset)", demangled, or "module(+0xoffset)" where the symbol is not exported:
/// what `addr2line -e module` takes. "0xaddress" when no loaded module holds it. Pass an address
/// inside the call instruction (one before the return address) to be led to the line of the call.
std::string describe_code_address(const void* address);

}  // namespace tutti
