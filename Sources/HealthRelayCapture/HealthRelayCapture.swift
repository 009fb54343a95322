@main
enum HealthRelayCapture {
    static func main() {}
}
