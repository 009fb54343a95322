import Testing

@testable import GatewaySettings

@Suite("Where the page listens")
struct ListenAddressTests {
    @Test(
        "an address is read, and written as it was read",
        arguments: [
            "127.0.0.1:8480", "[::1]:8480", "localhost:0", "[fe80::1]:65535", "gateway.example.org:1", "0.0.0.0:80",
        ])
    func reads(text: String) throws {
        #expect(try ListenAddress(text).description == text)
    }

    @Test(
        "anything else is refused with what was found",
        arguments: [
            "", ":", "8480", "localhost", "localhost:", ":8480", "localhost:65536", "localhost:-1", "localhost:+1",
            "localhost: 1", "::1:8480", "[]:8", "[[]]:8", "[::g]:8", "[127.0.0.1]:8", "[::1]8480", "a b:1",
            "127.0.0.1:1:2",
        ])
    func refuses(text: String) {
        #expect { try ListenAddress(text) } throws: { error in
            (error as? Problem)?.message.hasSuffix("found '\(text)'") == true
        }
    }

    @Test("only addresses of this machine count as such, not names that begin like one")
    func loopback() throws {
        for text in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "localhost:1"] {
            #expect(try ListenAddress(text).isLoopback, "\(text)")
        }
        for text in ["0.0.0.0:1", "127.example.org:1", "[::]:1", "10.0.0.1:1", "localhost.example.org:1"] {
            #expect(try !ListenAddress(text).isLoopback, "\(text)")
        }
    }
}
