// The commands of `tutti train`. Each parses its own command line, whose first word is its name,
// and returns an exit code.
#pragma once

namespace tutti::trainer {

int train_command(int argc, char** argv);    ///< trains
int eval_command(int argc, char** argv);     ///< the loss of a checkpoint
int sample_command(int argc, char** argv);   ///< text from a checkpoint
int prepare_command(int argc, char** argv);  ///< text to data
int plot_command(int argc, char** argv);     ///< a log to a picture
int inspect_command(int argc, char** argv);  ///< what a checkpoint has
int reshard_command(int argc, char** argv);  ///< a checkpoint for another number of ranks

}  // namespace tutti::trainer
