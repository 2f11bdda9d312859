#ifndef HDFNET_HDFNET_H
#define HDFNET_HDFNET_H

/* HDFNet for C and for languages that call C: saliency maps of RGB + depth pairs. Link
 * libhdfnet.so.
 *
 * Every function that can fail returns a status; hdfnet_last_error() then has the sentence that
 * says what was found, what is needed and what to do. No exception leaves this library.
 *
 * Threads: one predictor may be used by several threads at once. Settings are one thread's at a
 * time. Strings returned belong to the library. A child of fork() cannot use its parent's
 * predictors.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hdfnet_status {
  HDFNET_OK = 0,
  HDFNET_INVALID_ARGUMENT = 1, /* a null pointer, size, type or setting that the call cannot take */
  HDFNET_WEIGHTS = 2,          /* the weights file, or there is none */
  HDFNET_DEVICE = 3,           /* no such device, or this build has no code for it */
  HDFNET_OUT_OF_MEMORY = 4,
  HDFNET_LIBRARY = 5, /* the LibTorch that is loaded is not the one this was built with */
  HDFNET_FAILED = 6   /* anything else */
} hdfnet_status;

/* The message of the last call in this thread that did not return HDFNET_OK; "" before the first.
 * Valid until the thread's next such call. */
const char* hdfnet_last_error(void);

/* The library's version, such as "0.1.0". */
const char* hdfnet_version(void);

typedef struct hdfnet_settings hdfnet_settings;
typedef struct hdfnet_predictor hdfnet_predictor;

/* Settings with hdfnet-infer's defaults; NULL when there is no memory. */
hdfnet_settings* hdfnet_settings_create(void);
void hdfnet_settings_destroy(hdfnet_settings* settings); /* NULL is let pass */

/* Sets one by the name and in the spelling of hdfnet-infer's option: weights, device, precision,
 * size, threads, depth-range, depth-invert, depth-hole, upsample. */
hdfnet_status hdfnet_settings_set(hdfnet_settings* settings, const char* name, const char* value);

/* Loads the weights and makes the network. `settings` may be NULL (defaults), and is not kept. */
hdfnet_status hdfnet_predictor_create(const hdfnet_settings* settings,
                                      hdfnet_predictor** predictor);
void hdfnet_predictor_destroy(hdfnet_predictor* predictor); /* NULL is let pass */

typedef enum hdfnet_pixels {
  HDFNET_RGB8 = 0,   /* 3 bytes a pixel: red, green, blue */
  HDFNET_BGR8 = 1,   /* blue, green, red */
  HDFNET_GREY8 = 2,  /* uint8_t */
  HDFNET_GREY16 = 3, /* uint16_t in this machine's byte order */
  HDFNET_FLOAT32 = 4 /* float */
} hdfnet_pixels;

/* A picture in memory that belongs to the caller, rows from the top. */
typedef struct hdfnet_image {
  void* data;
  int32_t width;  /* pixels */
  int32_t height; /* pixels */
  size_t stride;  /* bytes from one row to the next one below; 0: no gap between the rows */
  int32_t pixels; /* one of hdfnet_pixels */
} hdfnet_image;

/* Writes the saliency map of one pair into map->data.
 *
 * rgb:   RGB8, BGR8 or GREY8.
 * depth: GREY8, GREY16 or FLOAT32, of any size (it is resized to the RGB); near = dark unless the
 *        setting depth-invert says otherwise. NaN, infinities, negative numbers and the setting
 *        depth-hole are pixels without a reading, which are filled.
 * map:   GREY8 or GREY16 (the full range = salient) or FLOAT32 (0..1), of the size that is wanted;
 *        for that of the RGB the map equals hdfnet-infer's. Untouched when the call fails.
 * The data of rgb and depth is only read. */
hdfnet_status hdfnet_predict(const hdfnet_predictor* predictor, const hdfnet_image* rgb,
                             const hdfnet_image* depth, const hdfnet_image* map);

#ifdef __cplusplus
}
#endif

#endif
