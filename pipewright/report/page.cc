#include "pipewright/report/page.h"

namespace pipewright {
namespace {

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : text)
    if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else
      escaped += c;
  return escaped;
}

// Inside a <script> element nothing may look like its end or like a comment.
// In JSON a '<' can only be part of a string, where this means the same.
std::string script_json(const Json& json) {
  std::string escaped;
  for (const char c : json.to_line())
    if (c == '<')
      escaped += "\\u003c";
    else
      escaped += c;
  return escaped;
}

}  // namespace

std::string page(std::string_view title, const Json& data, PageUse use) {
  std::string text =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src "
      "data:";
  if (use == PageUse::Live) text += "; connect-src 'self'";
  text += "\">\n<link rel=\"icon\" href=\"data:,\">\n<title>";
  text += html_text(title);
  text += "</title>\n<style>\n";
  text += kPageStyle;
  text +=
      "</style>\n</head>\n<body>\n<noscript>This page draws with "
      "JavaScript, which is off.</noscript>\n<script type=\"application/"
      "json\" id=\"report-data\">";
  text += script_json(data);
  text += "</script>\n<script type=\"module\">\n";
  text += kPageScript;
  text += "</script>\n</body>\n</html>\n";
  return text;
}

}  // namespace pipewright
