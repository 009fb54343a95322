import Resident

/// A process that does nothing but say what Swift's runtime alone takes, in kB.
@main
struct Empty {
    static func main() async { print(Resident.most()) }
}
