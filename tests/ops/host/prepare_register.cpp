#include "hdfnet/register_ops.h"

void prepare();

void prepare() {
  hdfnet::register_ops();
  hdfnet::register_ops();  // a second call must do no harm
}
