'use strict';
/* All tests, one after the other, in one browser. */

require('./content.js');
require('./timeline.js');
require('./looks.js');
require('./speed.js');
