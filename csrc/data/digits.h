/* What a config of a layout graph consists of. */
#ifndef TG_DIGITS_H
#define TG_DIGITS_H

#define TG_DIGIT_MIN (-1)
#define TG_DIGIT_MAX 5
#define TG_DIGITS    18 /* per configurable node: 6 of output, input and kernel layout each */
#define TG_DIGIT_ROWS 8 /* values of a digit and of a node that is not configurable: -2..5 */

#endif
