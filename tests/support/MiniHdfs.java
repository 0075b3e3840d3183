import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A name node and a data node: arguments are a folder, ports (RPC, HTTP), "format" or "keep". */
public class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.set("hdfs.minidfs.basedir", arguments[0]);
    settings.set("dfs.permissions.enabled", "true");
    settings.set("dfs.replication", "1");
    settings.set("dfs.namenode.http-address", "127.0.0.1:" + arguments[2]);
    settings.set("dfs.namenode.safemode.extension", "0");
    boolean format = arguments[3].equals("format");
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(settings, new File(arguments[0]))
            .nameNodePort(Integer.parseInt(arguments[1]))
            .nameNodeHttpPort(Integer.parseInt(arguments[2]))
            .numDataNodes(1)
            .format(format)
            .build();
    cluster.waitActive();
    System.out.println("ready");
    System.out.flush();
    Thread.sleep(Long.MAX_VALUE);
  }
}
