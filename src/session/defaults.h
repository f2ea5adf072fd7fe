/* Sizes of recordings where the caller gives none, and limits of their texts. Used by sessions, the
 * collector, and drivers that record on demand. */
#ifndef KS_DEFAULTS_H
#define KS_DEFAULTS_H

#define KS_DEFAULT_BUFFER_BYTES     (64u << 20) /* memory for chunks */
#define KS_DICTIONARY_BYTES (4u << 20)  /* memory for names, next to the chunks */
#define KS_PATH_BYTES       1024u       /* paths, with NUL; also in the control page */
#define KS_CONFIG_BYTES     1024u       /* configuration text for plug-ins, with NUL */
#endif
