/// A process that does nothing: what Swift's runtime alone takes.
@main
struct Empty {
    static func main() async {}
}
