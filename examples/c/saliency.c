/* The saliency map of one pair in C: saliency_c RGB.ppm DEPTH.pgm MAP.pgm [SETTING=VALUE...]
 * PPM and PGM (P6, P5) are read and written here, so that nothing but libhdfnet.so is needed. */

#include <hdfnet/hdfnet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads one number of the header; comments are let pass. */
static int number(FILE* file) {
  int value = -1, c = fgetc(file);
  while (c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '#') {
    if (c == '#') {
      while (c != '\n' && c != EOF) c = fgetc(file);
    }
    c = fgetc(file);
  }
  for (value = 0; c >= '0' && c <= '9'; c = fgetc(file)) value = 10 * value + (c - '0');
  return value; /* the one white space after it is consumed */
}

/* A binary PPM or PGM as hdfnet_image; exits when it is none. */
static hdfnet_image read_pnm(const char* name, char kind) {
  hdfnet_image image = {0};
  FILE* file = fopen(name, "rb");
  int most = 0, samples = 0;
  size_t bytes = 0, i = 0;
  if (file == NULL || fgetc(file) != 'P' || fgetc(file) != kind) {
    fprintf(stderr, "error: %s is no binary P%c file.\n", name, kind);
    exit(2);
  }
  image.width = number(file);
  image.height = number(file);
  most = number(file);
  samples = kind == '6' ? 3 : 1;
  image.pixels = kind == '6' ? HDFNET_RGB8 : most > 255 ? HDFNET_GREY16 : HDFNET_GREY8;
  bytes = (size_t)image.width * (size_t)image.height * (size_t)samples * (most > 255 ? 2 : 1);
  image.data = malloc(bytes);
  if (image.data == NULL || fread(image.data, 1, bytes, file) != bytes) {
    fprintf(stderr, "error: %s is cut off.\n", name);
    exit(2);
  }
  fclose(file);
  if (image.pixels == HDFNET_GREY16) { /* the file has the high byte first */
    const unsigned char* from = image.data;
    uint16_t* to = image.data;
    for (i = 0; i < bytes / 2; ++i) to[i] = (uint16_t)(from[2 * i] << 8 | from[2 * i + 1]);
  }
  return image;
}

static void check(hdfnet_status status) {
  if (status != HDFNET_OK) {
    fprintf(stderr, "error: %s\n", hdfnet_last_error());
    exit(1);
  }
}

int main(int argc, char** argv) {
  hdfnet_settings* settings = hdfnet_settings_create();
  hdfnet_predictor* predictor = NULL;
  hdfnet_image rgb, depth, map;
  FILE* file = NULL;
  int i = 0;
  if (argc < 4) {
    fprintf(stderr, "usage: saliency_c RGB.ppm DEPTH.pgm MAP.pgm [SETTING=VALUE...]\n");
    return 2;
  }
  for (i = 4; i < argc; ++i) {
    char* value = strchr(argv[i], '=');
    if (value != NULL) *value++ = '\0';
    check(hdfnet_settings_set(settings, argv[i], value));
  }
  rgb = read_pnm(argv[1], '6');
  depth = read_pnm(argv[2], '5');
  map = rgb;
  map.pixels = HDFNET_GREY8;
  map.data = malloc((size_t)rgb.width * (size_t)rgb.height);

  check(hdfnet_predictor_create(settings, &predictor));
  hdfnet_settings_destroy(settings);
  check(hdfnet_predict(predictor, &rgb, &depth, &map));
  hdfnet_predictor_destroy(predictor);

  file = fopen(argv[3], "wb");
  if (file == NULL) {
    fprintf(stderr, "error: %s cannot be written.\n", argv[3]);
    return 1;
  }
  fprintf(file, "P5\n%d %d\n255\n", (int)map.width, (int)map.height);
  fwrite(map.data, 1, (size_t)map.width * (size_t)map.height, file);
  free(rgb.data);
  free(depth.data);
  free(map.data);
  return fclose(file) == 0 ? 0 : 1;
}
