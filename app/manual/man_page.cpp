#include <algorithm>

#include "hdfnet/version.h"
#include "manual/manual.h"
#include "options/option_table.h"

namespace hdfnet::app {
namespace {

/// Text as roff takes it: backslashes and hyphens are said to be meant, and no line is a command.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool at_start = result.empty() || result.back() == '\n';
    if (at_start && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::string heading(const std::string& program, const std::string& summary) {
  std::string upper = program;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return ".TH " + roff(upper) +
         " 1 \"\" \"hdfnet\\-infer " HDFNET_VERSION "\" \"User Commands\"\n.SH NAME\n" +
         roff(program) + " \\- " + roff(summary) + "\n";
}

std::string option_paragraph(const OptionSpec& spec) {
  const std::string fallback = spec.get(Options{});
  std::string text = ".TP\n.B " + roff("--" + spec.name);
  if (!spec.value.empty()) text += "\n.I " + roff(spec.value);
  // .TP takes one line as the term; a second goes there by \c.
  if (!spec.value.empty()) text.replace(text.find("\n.I "), 1, " \\c\n");
  text += "\n" + roff(spec.help);
  if (spec.kind != OptionKind::flag && !fallback.empty()) {
    text += "\n(default: " + roff(fallback) + ")";
  }
  if (!spec.in_file) text += "\n(on the command line only)";
  return text + "\n";
}

constexpr const char* synopsis = R"(.SH SYNOPSIS
.B hdfnet\-infer
.BI \-\-rgb " PATH " \-\-depth " PATH"
.RB [ \-\-out
.IR PATH ]
.RI [ options ]
.SH DESCRIPTION
Finds the salient object in pictures with depth, with the network HDFNet. RGB and depth are two
images, two folders, or two text files with a path a line. Pairs are told by their names without
extension. For each a grey map is written, white where the salient object is.
)";

constexpr const char* ending = R"(.SH SETTINGS FILES
Every option but those marked has a YAML key of the same name in a file given with
.BR \-\-config ;
the command line wins over the file. A bare name
.RB ( fast )
is also looked for in the folder configs of the places below.
.SH FILES
.TP
.I weights/hdfnet_vgg16.pt
The default weights. They and configs/ are looked for in $HDFNET_HOME, beside the program (in its
folder, two folders up, and in ../share/hdfnet) and in the current folder.
.SH MEMORY
The pairs in memory are bounded, however large the folder is: three batches for each GPU or two
for the CPU, and two pairs for each thread, rounded up to a batch. While a GPU is not ready yet, the threads read on, up
to 1 GiB of decoded pictures, an eighth of the free memory and 48 pairs a thread, whichever is
least; when as much has been computed, the first bound holds again.
.SH EXIT STATUS
.TP
.B 0
all maps are written
.TP
.B 1
a pair failed or has no depth; the others are written
.TP
.B 2
the options, the settings or the weights are at fault
.TP
.B 130
interrupted
.SH EXAMPLES
.nf
hdfnet\-infer \-\-rgb photo.jpg \-\-depth photo.png \-\-out map.png
hdfnet\-infer \-\-rgb RGB/ \-\-depth depth/ \-\-depth\-suffix _Depth \-\-out saliency/
.fi
.SH SEE ALSO
.BR hdfnet\-eval (1),
.BR hdfnet\-bench (1)
)";

}  // namespace

std::string man_page() {
  std::string text =
      heading("hdfnet-infer", "saliency maps of RGB + depth pairs with HDFNet") + synopsis;
  text += ".SH OPTIONS\n.TP\n.B \\-\\-help\nprint the options, and stop\n";
  std::string group;
  for (const OptionSpec& spec : option_table()) {
    if (spec.group != group) text += ".SS " + roff(spec.group) + "\n";
    group = spec.group;
    text += option_paragraph(spec);
  }
  return text + ending;
}

std::string man_page_of_help(const std::string& program, const std::string& summary,
                             const std::string& help) {
  return heading(program, summary) + ".SH DESCRIPTION\n.nf\n" + roff(help) +
         ".fi\n.SH SEE ALSO\n.BR hdfnet\\-infer (1)\n";
}

}  // namespace hdfnet::app
