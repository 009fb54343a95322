import Glibc
import HelperProcesses

/// Where the program begins.
@main
enum Program {
    static func main() async {
        StandardStreams.occupy()
        ProcessMemory.close()
        ProcessMemory.shareArenas()
        await Healthrelay.perform()
        ProcessEnd.now(0)
    }
}
