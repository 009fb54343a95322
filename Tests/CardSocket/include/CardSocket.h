#pragma once

/// Where libpcsclite looks for pcscd in this process. It looks once, at its first call, whoever makes that: so this is set
/// before main, and no test of the process finds a pcscd that is not its own.
const char *card_socket(void);
