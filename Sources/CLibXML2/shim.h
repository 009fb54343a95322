#pragma once
#include <libxml/xmlversion.h>
// Debian's header of encodings includes ICU's, whose types Foundation has in another version. Nothing here uses them.
#undef LIBXML_ICU_ENABLED
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xmlreader.h>

// xmlFree is a variable that holds a function, which Swift takes for shared mutable state.
static inline void healthrelay_xml_free(void *memory) { xmlFree(memory); }
