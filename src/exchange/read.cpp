#include "src/exchange/read.hpp"

#include <utility>

#include "src/base/result.hpp"
#include "src/exchange/msccl_xml.hpp"
#include "src/exchange/mscclpp_json.hpp"
#include "src/exchange/sccl_json.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"

namespace tutti::exchange {

Result<Schedules> read(std::string_view text, std::vector<std::string>* notes) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const char begin = first == std::string_view::npos ? '\0' : text[first];
  if (begin == '<') return read_msccl_xml(text, notes);
  if (begin == '{') {
    const bool is_plan = text.find("\"threadblocks\"") != std::string_view::npos;
    return is_plan ? read_mscclpp_json(text) : read_sccl_json(text);
  }
  TUTTI_ASSIGN(ir::Schedule schedule, ir::parse(text));
  TUTTI_TRY(ir::verify(schedule));
  Schedules schedules;
  schedules.push_back(std::move(schedule));
  return schedules;
}

}  // namespace tutti::exchange
