#pragma once

#include <optional>
#include <string>
#include <vector>

#include "html/gallery.h"
#include "run/job.h"
#include "timing/module_report.h"

namespace hdfnet::app {

/// One pair on the page.
struct PageEntry {
  std::string name;
  Result result;
  std::optional<Thumbnails> thumbnails;  ///< none for failures, and past the gallery's limit
};

struct PageContent {
  std::string summary;   ///< for example "12 written, 1 failed in 0:03 (4.00 pairs/s)"
  std::string settings;  ///< as --print-config prints them
  std::vector<PageEntry> entries;
  std::optional<ModuleReport> report;
};

/// The page of --report: one HTML file that needs nothing else, no network and no other file.
std::string report_page(const PageContent& content);

}  // namespace hdfnet::app
