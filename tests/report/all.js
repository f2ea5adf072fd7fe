'use strict';
/* All tests, one after the other, in one browser. */

require('./content.js');
require('./first_screen.js');
require('./ranks.js');
require('./tables.js');
require('./timeline.js');
require('./looks.js');
require('./flame.js');
require('./speed.js');
