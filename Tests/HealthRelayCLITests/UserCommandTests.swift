import Foundation
import Testing

/// `user create` and `user set` at a server that knows several people.
@Suite struct UserCommandTests {
    private let scratch: Scratch
    private let server: Sandboxed

    init() async throws {
        scratch = try Scratch()
        server = try await Sandboxed(in: scratch)
    }

    private func user(_ arguments: String...) async throws -> Tool.Result {
        var environment = server.environment
        environment["HEALTHRELAY_USER_CLIENT_USER_ID"] = nil
        return try await Tool.run(
            ["user"] + arguments + ["--json", "--state-dir", scratch.state], environment: environment)
    }

    private func id(_ result: Tool.Result) throws -> String {
        #expect(result.status == 0, "\(result.errors)")
        return try #require(try Document(result.output)["user_id"]?.plain)
    }

    @Test("create --no-set makes a user at the server and changes nothing here")
    func createOnly() async throws {
        let bear = try id(try await user("create", "white_bear"))
        let made = try await user("create", "brown_bear", "--no-set")
        let other = try id(made)
        #expect(other != bear && made.output.contains(#""client_user_id":"brown_bear""#))
        #expect(try id(try await user("show")) == bear)
        // The server knew them already: the same user, and still nobody is set anew.
        #expect(try id(try await user("create", "brown_bear", "--no-set")) == other)
        #expect(try id(try await user("show")) == bear)
        let file = scratch.url.appendingPathComponent("user.json")
        try made.output.write(to: file, atomically: true, encoding: .utf8)
        let check = try await Tool.other(Tool.root.path + "/Tests/Schemas/check", ["user_show", file.path])
        #expect(check.status == 0, "\(check.output) \(check.errors)")
    }

    @Test("set takes a user by the server's UUID, and says where it is nobody's or another's")
    func setByUUID() async throws {
        let bear = try id(try await user("create", "white_bear"))
        let other = try id(try await user("create", "brown_bear", "--no-set"))
        let byUUID = try await user("set", "--user-id", other)
        #expect(try id(byUUID) == other && byUUID.output.contains(#""client_user_id":"brown_bear""#))
        #expect(try id(try await user("set", bear.uppercased())) == bear)
        #expect(try id(try await user("set", "brown_bear", "--user-id", other)) == other)

        let another = try await user("set", "white_bear", "--user-id", other)
        #expect(another.status == 65 && another.errors.contains(#""code":"user_mismatch""#), "\(another.errors)")
        #expect(another.errors.contains("brown_bear"))
        let nobody = "00000000-0000-4000-8000-000000000000"
        for arguments in [["--user-id", nobody], [nobody], ["polar_bear"]] {
            let unknown = try await Tool.run(
                ["user", "set"] + arguments + ["--json", "--state-dir", scratch.state],
                environment: server.environment.filter { !$0.key.hasSuffix("CLIENT_USER_ID") })
            #expect(unknown.status == 66 && unknown.errors.contains("no_such_user"), "\(unknown.errors)")
        }
        let odd = try await user("set", "--user-id", "brown_bear")
        #expect(odd.status == 64 && odd.errors.contains("UUID"))
        #expect(try await user("set").status == 64)
        // Nothing of this has set anybody else.
        #expect(try id(try await user("show")) == other)
    }

    @Test("a UUID that is a client's own id comes before the server's")
    func uuidOfTheClient() async throws {
        let bear = try id(try await user("create", "white_bear"))
        // A backend whose own id of one user is the server's id of another.
        let twin = try id(try await user("create", bear, "--no-set"))
        #expect(try id(try await user("set", bear)) == twin)
        #expect(try id(try await user("set", "--user-id", bear)) == bear)
    }
}
