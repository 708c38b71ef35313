// Runs one rank of tutti-tune: measures cell after cell with the others. Rank 0 prints and stores.
#pragma once

#include <string>

#include "src/cost/measured_table.hpp"
#include "tools/tune/options.hpp"

namespace tutti::tune {

/// Runs to the end and returns the exit code. `launched`: joins the job of the environment.
int run_rank(const Options& options, bool launched);

/// Where the table goes: options.output, else the file that TUTTI_TUNING_TABLE means. An error when
/// that is none.
Result<std::string> output_path(const Options& options);

/// What is there already, to be added to: nothing where there is no file or it is standard output.
Result<MeasuredTable> table_in(const std::string& path);

}  // namespace tutti::tune
