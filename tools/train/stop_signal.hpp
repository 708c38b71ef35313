// Says whether somebody asked this process to end.
#pragma once

namespace tutti::trainer {

/// From here on the first SIGINT or SIGTERM is remembered, instead of ending the process; a second
/// one ends it. A signal that was ignored stays so.
void remember_stop_signals();

/// Whether there was one.
bool stop_was_asked();

}  // namespace tutti::trainer
