/* One kernel and one shape: `attnpress-emulate run`, which `attnpress run --device emulated` hands
 * over to. */
#pragma once

int emulate_run(int argc, char **argv);
