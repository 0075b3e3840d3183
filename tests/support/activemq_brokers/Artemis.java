import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressFullMessagePolicy;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;
import java.util.Set;

/** ActiveMQ Artemis: folder, port of STOMP, port of STOMP with TLS, of all, user, password, keys. */
public class Artemis {
    public static void main(String[] given) throws Exception {
        ConfigurationImpl conf = new ConfigurationImpl();
        conf.setJournalDirectory(given[0] + "/journal");
        conf.setBindingsDirectory(given[0] + "/bindings");
        conf.setLargeMessagesDirectory(given[0] + "/large");
        conf.setPagingDirectory(given[0] + "/paging");
        conf.setJournalType(JournalType.NIO);
        conf.setJournalFileSize(1 << 20);
        conf.setMaxDiskUsage(-1);
        conf.addAcceptorConfiguration("stomp", "tcp://127.0.0.1:" + given[1] + "?protocols=STOMP");
        conf.addAcceptorConfiguration("tls", "tcp://127.0.0.1:" + given[2]
            + "?protocols=STOMP&sslEnabled=true&keyStoreType=PKCS12&keyStorePassword=certificates&keyStorePath=" + given[6]);
        conf.addAcceptorConfiguration("all", "tcp://127.0.0.1:" + given[3]);
        AddressSettings full = new AddressSettings();
        full.setMaxSizeBytes(64 << 10).setAddressFullMessagePolicy(AddressFullMessagePolicy.FAIL);
        conf.addAddressSetting("full.#", full);
        conf.putSecurityRoles("#", Set.of(new Role("users", true, true, true, true, true, true, true, true, true, true, true, true)));
        SecurityConfiguration users = new SecurityConfiguration();
        users.addUser(given[4], given[5]);
        users.addRole(given[4], "users");
        EmbeddedActiveMQ server = new EmbeddedActiveMQ();
        server.setConfiguration(conf);
        server.setSecurityManager(new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), users));
        server.start();
        Thread.currentThread().join();
    }
}
