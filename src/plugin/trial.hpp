// A trial of foreign code in a child process, before it runs in this one.
//
// A plugin that crashes as it is loaded or initialised takes the process with it, and that cannot
// be caught. A forked child does the same first. What is decisive: it ended by a signal, or was not
// through in time. What a plugin reports there is not, since some of it may be due to the fork.
//
// Is a fork safe here? The child has one thread, and locks that other threads held stay locked. It
// calls dlopen, the plugin and _exit. glibc makes its own locks usable in a child, those of malloc
// and of the loader among them. Other libraries may not: CUDA, for one, reports an error in a child
// and does not hang. A plugin that waits for such a lock runs into the limit and is refused.
// TUTTI_NET_PLUGIN_TRIAL=0 is for those. Nothing else of this process is touched by the child: its
// signals have default handlers, it writes no core, and ends with its parent.
#pragma once

#include <functional>

#include "src/base/clock.hpp"
#include "tutti/error.hpp"

namespace tutti::plugin {

/// kUnsupported if `body` ended a child process or took longer: "it ended by signal 11
/// (Segmentation fault)". Ok as well where no child can be made; the log says so.
Status survives(const std::function<void()>& body, Nanos limit);

}  // namespace tutti::plugin
