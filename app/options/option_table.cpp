#include "options/option_table.h"

#include <algorithm>
#include <type_traits>

namespace hdfnet::app {
namespace {

/// An option that reads and writes one member of Options; its kind follows from the member's type.
template <class Value>
OptionSpec option(std::string name, std::string value, Value Options::*member, std::string help) {
  OptionSpec spec;
  spec.name = std::move(name);
  spec.value = std::move(value);
  spec.help = std::move(help);
  if constexpr (std::is_same_v<Value, bool>) spec.kind = OptionKind::flag;
  if constexpr (std::is_same_v<Value, std::vector<Save>>) spec.kind = OptionKind::list;
  spec.set = [member](Options& options, const std::string& text) {
    parse_value(text, options.*member);
  };
  spec.get = [member](const Options& options) { return print_value(options.*member); };
  return spec;
}

OptionSpec flag(std::string name, bool Options::*member, std::string help) {
  return option(std::move(name), "", member, std::move(help));
}

OptionSpec command_line_only(OptionSpec spec) {
  spec.in_file = false;
  return spec;
}

/// Adds a condition on the text to what the type itself demands.
OptionSpec checked(OptionSpec spec, std::function<void(const std::string&)> check) {
  spec.set = [check = std::move(check), set = std::move(spec.set)](Options& options,
                                                                   const std::string& text) {
    check(text);
    set(options, text);
  };
  return spec;
}

void check_device(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "cuda" || text == "all") return;
  const std::string prefix = "cuda:";
  const std::string index = text.starts_with(prefix) ? text.substr(prefix.size()) : "";
  const bool digits = !index.empty() && index.size() <= 3 &&
                      index.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) throw ValueError("'" + text + "' is not one of auto, cpu, cuda, cuda:N or all");
}

void check_bit_depth(const std::string& text) {
  if (text != "8" && text != "16") throw ValueError("'" + text + "' is not one of 8 or 16");
}

void check_given(const std::string& text) {
  if (text.empty()) throw ValueError("a path is needed");
}

void check_positive(const std::string& text) {
  int value = 0;
  parse_value(text, value);
  if (value < 1) throw ValueError("'" + text + "' is not a whole number from 1 up");
}

std::vector<OptionSpec> input_options() {
  return {
      option("rgb", "PATH", &Options::rgb,
             "RGB image, folder of them, or text file of paths ('-': the list is read from stdin)"),
      option("depth", "PATH", &Options::depth, "depth image, folder, or text file of paths"),
      option(
          "dataset", "DIR", &Options::dataset,
          "folder with RGB, Image or Images beside Depth or depths; stands for --rgb and --depth"),
      option("rgb-suffix", "TEXT", &Options::rgb_suffix,
             "ending of the RGB names that is no part of the pair's name, such as _left"),
      option("depth-suffix", "TEXT", &Options::depth_suffix,
             "ending of the depth names that is no part of the pair's name, such as _Depth"),
      option("rgb-glob", "PATTERN", &Options::rgb_glob,
             "take only RGB files that match, such as '*.jpg'"),
      option("depth-glob", "PATTERN", &Options::depth_glob, "take only depth files that match"),
      flag("recursive", &Options::recursive, "look into sub-folders; the output keeps their tree"),
      flag("allow-unpaired", &Options::allow_unpaired,
           "an RGB image without depth is a warning and does not change the exit status"),
  };
}

std::vector<OptionSpec> depth_options() {
  return {
      option(
          "depth-range", "auto|none|minmax|LOW:HIGH", &Options::depth_range,
          "depth that becomes 0..1. auto: 8-bit as it is, other kinds by each image's own minimum "
          "and maximum; none: the type's full range"),
      flag("depth-invert", &Options::depth_invert,
           "for depth where near is bright: the network was trained on near = dark"),
      option("depth-hole", "VALUE|none", &Options::depth_hole,
             "depth value that means 'no reading' and is left out of the range"),
  };
}

std::vector<OptionSpec> network_options() {
  return {
      checked(option("weights", "FILE", &Options::weights,
                     "TorchScript archive with the parameters; when not given, "
                     "weights/hdfnet_vgg16.pt below HDFNET_HOME, beside the program or in the "
                     "current folder"),
              check_given),
      checked(option("device", "auto|cpu|cuda|cuda:N|all", &Options::device,
                     "where the network runs; all: every GPU"),
              check_device),
      option("precision", "auto|fp32|tf32|fp16|bf16", &Options::precision,
             "arithmetic of the network; auto: fp16 on CUDA, fp32 on the CPU"),
      option("batch", "N|auto", &Options::batch,
             "pairs the network takes at once; auto: 1 on the CPU, 31 on CUDA or what its free "
             "memory has room for; there fewer are filled up"),
      option("size", "N|WxH", &Options::size, "size of the network's input"),
      option("ddpm", "fused|reference", &Options::ddpm,
             "dynamic dilated pyramid modules: the fused operator, or unfold as in the original"),
      option("threads", "N|auto", &Options::threads,
             "threads for reading and writing, and on the CPU for the network"),
      flag("verify", &Options::verify,
           "write nothing; compare fused, reference and the archive's own forward (this runs code "
           "in the archive), print the largest difference per image, and end with status 1 past "
           "1e-4 in fp32, 2e-2 in tf32 and fp16, 1e-1 in bf16"),
  };
}

std::vector<OptionSpec> output_options() {
  return {
      checked(
          option("out", "PATH", &Options::out, "output folder, or a .png file for a single pair"),
          check_given),
      option("save", "KIND[,KIND...]", &Options::save,
             "what to write of map, overlay, cutout, heatmap and mask"),
      option("threshold", "T|otsu|none", &Options::threshold,
             "write a binary mask too, cut at T in 0..1 or where Otsu's method says"),
      checked(option("bit-depth", "8|16", &Options::bit_depth, "bits of the saliency map's PNG"),
              check_bit_depth),
      option("upsample", "bilinear|nearest", &Options::upsample,
             "how the map is brought back to the image's size"),
      option("rounding", "nearest|truncate", &Options::rounding,
             "how saliency becomes a whole grey level"),
      flag("skip-existing", &Options::skip_existing,
           "leave pairs whose output files are all there"),
      option("manifest", "FILE", &Options::manifest,
             "write one line of JSON per pair: files, status, error, sizes, times"),
      option("report", "FILE", &Options::report,
             "write one self-contained HTML page: gallery, module report, settings"),
  };
}

std::vector<OptionSpec> run_options() {
  return {
      flag("dry-run", &Options::dry_run, "print the pairs and what would be written, and stop"),
      flag("fail-fast", &Options::fail_fast, "stop at the first pair that fails"),
      flag("quiet", &Options::quiet, "only warnings and errors on stderr"),
      option("shard", "I/N|auto", &Options::shard,
             "do part I (from 0) of N equal parts; auto: as Slurm, Open MPI, MPICH or PMI say"),
  };
}

std::vector<OptionSpec> timing_options() {
  return {
      flag("timing", &Options::timing, "print the module report on stderr"),
      option("timing-json", "FILE", &Options::timing_json, "write the module report as JSON"),
      option("timing-csv", "FILE", &Options::timing_csv, "write the module report as CSV"),
      option("trace", "FILE", &Options::trace,
             "write a Chrome trace, for ui.perfetto.dev or chrome://tracing"),
      checked(option("repeat", "N", &Options::repeat, "measured passes of the module report"),
              check_positive),
      option("warmup", "N", &Options::warmup,
             "passes before them, after the first (cold) one, which is reported apart"),
  };
}

std::vector<OptionSpec> configuration_options() {
  return {
      command_line_only(option("config", "FILE", &Options::config,
                               "YAML file of settings; the command line wins over it")),
      command_line_only(flag("print-config", &Options::print_config,
                             "print the merged settings as YAML that --config reads, and stop")),
      command_line_only(flag("version", &Options::version, "print versions, and stop")),
  };
}

std::vector<OptionSpec> make_table() {
  const std::vector<std::pair<std::string, std::vector<OptionSpec>>> groups = {
      {"Input", input_options()},
      {"Depth", depth_options()},
      {"Network", network_options()},
      {"Output", output_options()},
      {"Run", run_options()},
      {"Timing", timing_options()},
      {"Configuration", configuration_options()}};
  std::vector<OptionSpec> table;
  for (const auto& [group, options] : groups) {
    for (OptionSpec spec : options) {
      spec.group = group;
      table.push_back(std::move(spec));
    }
  }
  return table;
}

}  // namespace

const std::vector<OptionSpec>& option_table() {
  static const std::vector<OptionSpec> table = make_table();
  return table;
}

const OptionSpec* find_option(std::string_view name) {
  const auto& table = option_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const OptionSpec& spec) { return spec.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string> option_names(bool in_file_only) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : option_table()) {
    if (spec.in_file || !in_file_only) names.push_back(spec.name);
  }
  return names;
}

}  // namespace hdfnet::app
