// The page of `report` as one HTML file: style, script and data. It opens
// offline in any browser and loads nothing from elsewhere.

#pragma once

#include <string>
#include <string_view>

#include "pipewright/base/json.h"

namespace pipewright {

// From web/, embedded at build time (cmake/web_page.cmake).
extern const std::string_view kPageStyle, kPageScript;

enum class PageUse {
  File,  // opened from a disk: talks to nobody
  Live,  // asks the server that it came from, and nobody else
};

// `title` and all text of the data may be anything: both are escaped.
std::string page(std::string_view title, const Json& data,
                 PageUse use = PageUse::File);

}  // namespace pipewright
