#include "options/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "data_files.h"
#include "options/nearest.h"
#include "options/option_table.h"
#include "text/printable.h"

namespace hdfnet::app {
namespace {

constexpr const char* description =
    "Saliency maps of RGB + depth pairs with HDFNet.\n"
    "\n"
    "  hdfnet-infer --rgb photo.jpg --depth photo.png --out map.png\n"
    "  hdfnet-infer --rgb RGB/ --depth depth/ --depth-suffix _Depth --out saliency/";

constexpr const char* footer =
    "Written paths go to stdout, everything else to stderr. A flag that a file sets is unset with\n"
    "--NAME=false. Exit status: 0 all written, 1 a pair failed or has no depth, 2 usage,\n"
    "configuration or weights, 130 interrupted.";

std::string help_of(const OptionSpec& spec) {
  const std::string fallback = spec.get(Options{});
  if (spec.kind == OptionKind::flag || fallback.empty()) return spec.help;
  return spec.help + " [" + fallback + "]";
}

/// CLI11 splits the arguments and prints the help; the values go through the table's set functions,
/// the same as those of a file.
struct Parser {
  CLI::App app{description, "hdfnet-infer"};
  std::map<std::string, CLI::Option*> options;
  std::map<std::string, std::vector<std::string>> values;

  Parser() {
    app.footer(footer);
    app.allow_extras();
    app.set_help_flag("--help,-h", "print this text, and stop");
    for (const OptionSpec& spec : option_table()) {
      CLI::Option* option = nullptr;
      if (spec.kind == OptionKind::flag) {
        option = app.add_flag("--" + spec.name);
        option->description(help_of(spec));
      } else {
        option = app.add_option("--" + spec.name, values[spec.name], help_of(spec));
        option->type_name(spec.value)->expected(1)->option_text(spec.value);
      }
      option->group(spec.group);
      options[spec.name] = option;
    }
  }
};

[[noreturn]] void fail_on_extra(const std::string& argument) {
  if (!argument.starts_with('-')) {
    throw UsageError("Unexpected argument '" + argument +
                     "': every input is given with an option, as in --rgb PATH --depth PATH.");
  }
  const std::string word = argument.substr(0, argument.find('='));
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  throw UsageError("Unknown option '" + word + "'; did you mean '--" +
                   nearest(name, option_names(false)) + "'?  --help lists every option.");
}

void set_from_command_line(const OptionSpec& spec, const CLI::Option& given, Options& options) {
  if (given.results().empty()) return;
  try {
    spec.set(options, given.results().back());
  } catch (const ValueError& error) {
    throw UsageError("--" + spec.name + ": " + sentence(error.what()));
  }
}

void parse_arguments(Parser& parser, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
  try {
    parser.app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    throw;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + ". --help lists every option.");
  }
  const std::vector<std::string> extras = parser.app.remaining();
  if (!extras.empty()) fail_on_extra(extras.front());
}

}  // namespace

std::string help_text() {
  return Parser().app.help();
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine result;
  Parser parser;
  try {
    parse_arguments(parser, arguments);
  } catch (const CLI::CallForHelp&) {
    result.help = true;
    return result;
  }
  set_from_command_line(*find_option("config"), *parser.options.at("config"), result.options);
  if (!result.options.config.empty()) {
    apply_config_file(find_config(result.options.config), result.options);
  }
  for (const OptionSpec& spec : option_table()) {
    set_from_command_line(spec, *parser.options.at(spec.name), result.options);
  }
  return result;
}

}  // namespace hdfnet::app
