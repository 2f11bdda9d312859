#include "manual/manual.h"
#include "manual/values.h"
#include "options/option_table.h"

namespace hdfnet::app {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// `text` between single quotes, for a shell; the shells differ in what a quote inside becomes.
std::string quoted(const std::string& text, const std::string& inner_quote) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? inner_quote : std::string(1, c);
  return result + "'";
}

/// zsh's _arguments gives a meaning to brackets and colons.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh_action(const ValueHint& hint) {
  switch (hint.kind) {
    case ValueHint::Kind::words:
      return "(" + joined(hint.words) + ")";
    case ValueHint::Kind::file:
      return "_files";
    case ValueHint::Kind::folder:
      return "_files -/";
    case ValueHint::Kind::none:
      break;
  }
  return " ";
}

std::string fish_arguments(const ValueHint& hint) {
  switch (hint.kind) {
    case ValueHint::Kind::words:
      return " -x -a " + quoted(joined(hint.words), "\\'");
    case ValueHint::Kind::file:
      return " -r -F";
    case ValueHint::Kind::folder:
      return " -x -a '(__fish_complete_directories)'";
    case ValueHint::Kind::none:
      break;
  }
  return " -x";
}

}  // namespace

std::string bash_completion() {
  std::string names = "--help", files, folders, cases;
  for (const OptionSpec& spec : option_table()) {
    const std::string flag = "--" + spec.name;
    names += " " + flag;
    const ValueHint hint = value_hint(spec);
    if (hint.kind == ValueHint::Kind::file) files += (files.empty() ? "" : " | ") + flag;
    if (hint.kind == ValueHint::Kind::folder) folders += (folders.empty() ? "" : " | ") + flag;
    if (hint.kind == ValueHint::Kind::words) {
      cases += "    " + flag + ") words='" + joined(hint.words) + "' ;;\n";
    } else if (spec.kind != OptionKind::flag && hint.kind == ValueHint::Kind::none) {
      cases += "    " + flag + ") return ;;\n";
    }
  }
  return "# Completion of hdfnet-infer for bash; made from its table of options.\n"
         "_hdfnet_infer() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  local words='" +
         names +
         "'\n"
         "  COMPREPLY=()\n"
         "  case \"$previous\" in\n"
         "    " +
         files +
         ")\n"
         "      compopt -o filenames 2>/dev/null\n"
         "      mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
         "      return ;;\n"
         "    " +
         folders +
         ")\n"
         "      compopt -o filenames 2>/dev/null\n"
         "      mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
         "      return ;;\n" +
         cases +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "}\n"
         "complete -F _hdfnet_infer hdfnet-infer\n";
}

std::string zsh_completion() {
  std::string text =
      "#compdef hdfnet-infer\n# Made from hdfnet-infer's table of options.\n_arguments \\\n"
      "  '--help[print the options, and stop]'";
  for (const OptionSpec& spec : option_table()) {
    std::string entry = "--" + spec.name + "[" + zsh_text(spec.help) + "]";
    if (spec.kind != OptionKind::flag) {
      entry += ":" + zsh_text(spec.value) + ":" + zsh_action(value_hint(spec));
    }
    text += " \\\n  " + quoted(entry, "'\\''");
  }
  return text + "\n";
}

std::string fish_completion() {
  std::string text =
      "# Completion of hdfnet-infer for fish; made from its table of options.\n"
      "complete -c hdfnet-infer -f\n"
      "complete -c hdfnet-infer -l help -d 'print the options, and stop'\n";
  for (const OptionSpec& spec : option_table()) {
    text += "complete -c hdfnet-infer -l " + spec.name;
    if (spec.kind != OptionKind::flag) text += fish_arguments(value_hint(spec));
    text += " -d " + quoted(spec.help, "\\'") + "\n";
  }
  return text;
}

}  // namespace hdfnet::app
