// librsvg's and cairo's public interfaces, as far as pages become a PDF; the macros of GObject are functions here.
#pragma once
#include <stdint.h>
#include <cairo-pdf.h>
#include <librsvg/rsvg.h>

/// An SVG document out of octets, or NULL. It has no base address, so that it can name no file.
static inline RsvgHandle *crsvg_read(const uint8_t *octets, size_t count) {
    RsvgHandle *handle = rsvg_handle_new_from_data(octets, count, NULL);
    // One pixel is a point of 1/72 inch.
    if (handle) rsvg_handle_set_dpi(handle, 72);
    return handle;
}

/// The size of a document in points; 0 where it says none.
static inline int crsvg_size(RsvgHandle *handle, double *width, double *height) {
    return rsvg_handle_get_intrinsic_size_in_pixels(handle, width, height);
}

/// Draws a document over the whole page; 0 where that fails.
static inline int crsvg_draw(RsvgHandle *handle, cairo_t *context, double width, double height) {
    RsvgRectangle page = {0, 0, width, height};
    return rsvg_handle_render_document(handle, context, &page, NULL);
}

/// Frees a document.
static inline void crsvg_free(RsvgHandle *handle) { g_object_unref(handle); }
