/* Lists of N words, as the entry points of C and Fortran need them: parameters, their types, the array
 * of words, the words of that array as arguments. Made by hand of one pattern, for 0 to 12. */
#ifndef CX_CALLS_H
#define CX_CALLS_H

#include "mpi.h"

#define PARAMETERS_0 void
#define TYPES_0      void
#define WORDS_0      0
#define PASSED_0
#define LEADING_0
#define LEADING_TYPES_0
#define LEADING_PASSED_0
#define PARAMETERS_1     cx_word a0
#define TYPES_1          cx_word
#define WORDS_1          a0
#define PASSED_1         w[0]
#define LEADING_1        cx_word a0,
#define LEADING_TYPES_1  cx_word,
#define LEADING_PASSED_1 w[0],
#define PARAMETERS_2     cx_word a0, cx_word a1
#define TYPES_2          cx_word, cx_word
#define WORDS_2          a0, a1
#define PASSED_2         w[0], w[1]
#define LEADING_2        cx_word a0, cx_word a1,
#define LEADING_TYPES_2  cx_word, cx_word,
#define LEADING_PASSED_2 w[0], w[1],
#define PARAMETERS_3     cx_word a0, cx_word a1, cx_word a2
#define TYPES_3          cx_word, cx_word, cx_word
#define WORDS_3          a0, a1, a2
#define PASSED_3         w[0], w[1], w[2]
#define LEADING_3        cx_word a0, cx_word a1, cx_word a2,
#define LEADING_TYPES_3  cx_word, cx_word, cx_word,
#define LEADING_PASSED_3 w[0], w[1], w[2],
#define PARAMETERS_4     cx_word a0, cx_word a1, cx_word a2, cx_word a3
#define TYPES_4          cx_word, cx_word, cx_word, cx_word
#define WORDS_4          a0, a1, a2, a3
#define PASSED_4         w[0], w[1], w[2], w[3]
#define LEADING_4        cx_word a0, cx_word a1, cx_word a2, cx_word a3,
#define LEADING_TYPES_4  cx_word, cx_word, cx_word, cx_word,
#define LEADING_PASSED_4 w[0], w[1], w[2], w[3],
#define PARAMETERS_5     cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4
#define TYPES_5          cx_word, cx_word, cx_word, cx_word, cx_word
#define WORDS_5          a0, a1, a2, a3, a4
#define PASSED_5         w[0], w[1], w[2], w[3], w[4]
#define LEADING_5        cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4,
#define LEADING_TYPES_5  cx_word, cx_word, cx_word, cx_word, cx_word,
#define LEADING_PASSED_5 w[0], w[1], w[2], w[3], w[4],
#define PARAMETERS_6     cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5
#define TYPES_6          cx_word, cx_word, cx_word, cx_word, cx_word, cx_word
#define WORDS_6          a0, a1, a2, a3, a4, a5
#define PASSED_6         w[0], w[1], w[2], w[3], w[4], w[5]
#define LEADING_6        cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5,
#define LEADING_TYPES_6  cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,
#define LEADING_PASSED_6 w[0], w[1], w[2], w[3], w[4], w[5],
#define PARAMETERS_7                                                                               \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6
#define TYPES_7  cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word
#define WORDS_7  a0, a1, a2, a3, a4, a5, a6
#define PASSED_7 w[0], w[1], w[2], w[3], w[4], w[5], w[6]
#define LEADING_7                                                                                  \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,
#define LEADING_TYPES_7  cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,
#define LEADING_PASSED_7 w[0], w[1], w[2], w[3], w[4], w[5], w[6],
#define PARAMETERS_8                                                                               \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6, cx_word a7
#define TYPES_8  cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word
#define WORDS_8  a0, a1, a2, a3, a4, a5, a6, a7
#define PASSED_8 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
#define LEADING_8                                                                                  \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6, cx_word a7,
#define LEADING_TYPES_8  cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,
#define LEADING_PASSED_8 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7],
#define PARAMETERS_9                                                                               \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8
#define TYPES_9  cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word
#define WORDS_9  a0, a1, a2, a3, a4, a5, a6, a7, a8
#define PASSED_9 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]
#define LEADING_9                                                                                  \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8,
#define LEADING_TYPES_9                                                                            \
    cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,
#define LEADING_PASSED_9 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8],
#define PARAMETERS_10                                                                              \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8, cx_word a9
#define TYPES_10                                                                                   \
    cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word
#define WORDS_10  a0, a1, a2, a3, a4, a5, a6, a7, a8, a9
#define PASSED_10 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9]
#define LEADING_10                                                                                 \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8, cx_word a9,
#define LEADING_TYPES_10                                                                           \
    cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,
#define LEADING_PASSED_10 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9],
#define PARAMETERS_11                                                                              \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8, cx_word a9, cx_word a10
#define TYPES_11                                                                                   \
    cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,      \
        cx_word
#define WORDS_11  a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
#define PASSED_11 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10]
#define LEADING_11                                                                                 \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8, cx_word a9, cx_word a10,
#define LEADING_TYPES_11                                                                           \
    cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,      \
        cx_word,
#define LEADING_PASSED_11 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10],
#define PARAMETERS_12                                                                              \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8, cx_word a9, cx_word a10, cx_word a11
#define TYPES_12                                                                                   \
    cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,      \
        cx_word, cx_word
#define WORDS_12  a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11
#define PASSED_12 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11]
#define LEADING_12                                                                                 \
    cx_word a0, cx_word a1, cx_word a2, cx_word a3, cx_word a4, cx_word a5, cx_word a6,            \
        cx_word a7, cx_word a8, cx_word a9, cx_word a10, cx_word a11,
#define LEADING_TYPES_12                                                                           \
    cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word, cx_word,      \
        cx_word, cx_word,
#define LEADING_PASSED_12 w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11],

#endif
