#pragma once

// SCRAMJET_DEBUG=1 (or a folder): every stage of each compilation is written to a file.

#include <string>

namespace scramjet::codegen {

// Is $SCRAMJET_DEBUG set to something else than 0?
bool debug_dumps_enabled();

// Writes `text` as NNN_<stage> into $SCRAMJET_DEBUG (with 1: scramjet_debug/ in the working
// folder), where NNN counts the files of this process. Does nothing where dumps are off; a folder
// that cannot be written is warned of once.
void debug_dump(const std::string& stage, const std::string& text);

}  // namespace scramjet::codegen
