void prepare();

// The operators come by dlopen, by LD_PRELOAD, or not at all.
void prepare() {}
