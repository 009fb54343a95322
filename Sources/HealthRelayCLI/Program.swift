import Dispatch
import Glibc
import HelperProcesses
import TaskThreads

/// Where the program begins.
@main
enum Program {
    static func main() {
        ProcessMemory.close()
        installTaskThreads()
        Task {
            await Healthrelay.perform()
            exit(0)
        }
        dispatchMain()
    }
}
