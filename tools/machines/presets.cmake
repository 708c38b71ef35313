# Compiles presets/**/*.json into this folder's library, so that no file is needed at run time: makes
# presets.cpp, which holds the text of each under the name of its file.
file(GLOB tutti_presets CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/presets/hosts/*.json ${CMAKE_SOURCE_DIR}/presets/fabrics/*.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tutti_presets})

set(tutti_preset_rows "")
foreach(tutti_preset_folder hosts fabrics)
  set(tutti_presets_here ${tutti_presets})
  list(FILTER tutti_presets_here INCLUDE REGEX "/${tutti_preset_folder}/[^/]*$")
  list(SORT tutti_presets_here)
  foreach(tutti_preset ${tutti_presets_here})
    get_filename_component(tutti_preset_name ${tutti_preset} NAME_WLE)
    file(READ ${tutti_preset} tutti_preset_text)
    string(APPEND tutti_preset_rows
           "    {\"${tutti_preset_name}\", R\"preset(${tutti_preset_text})preset\"},\n")
  endforeach()
endforeach()

set(tutti_presets_source ${CMAKE_BINARY_DIR}/generated/presets.cpp)
file(CONFIGURE OUTPUT ${tutti_presets_source} @ONLY CONTENT
"// Made by tools/machines/presets.cmake.
#include <array>

#include \"tools/machines/preset.hpp\"

namespace tutti::topo {

std::span<const PresetText> preset_texts() {
  static constexpr auto kTexts = std::to_array<PresetText>({
@tutti_preset_rows@  });
  return kTexts;
}

}  // namespace tutti::topo
")
target_sources(tutti_tools_machines PRIVATE ${tutti_presets_source})
