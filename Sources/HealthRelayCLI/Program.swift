import Dispatch
import Glibc
import TaskThreads

/// Where the program begins.
@main
enum Program {
    static func main() {
        installTaskThreads()
        Task {
            await Healthrelay.perform()
            exit(0)
        }
        dispatchMain()
    }
}
